"""The command `hhd sync`: how it stands with your other devices."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hhd.app import devices, syncing
from hhd.cli import flows, progress, telling
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.answers.syncing import Freshness, Syncings


@click.command("sync")
@click.argument("session", required=False)
@click.option("--pause", "pause", is_flag=True, help="Take no content from other devices until you say --resume.")
@click.option("--resume", "resume", is_flag=True, help="Take content again.")
@click.option("--follow", "-f", "follow", is_flag=True, help="Go on and show what changes.")
@JSON
def command(session: str | None, pause: bool, resume: bool, follow: bool, as_json: bool) -> None:
    """Say how it stands with your other devices; of a SESSION, which of them has all of it.

    Records of who owns what and what was begun go on while sync is paused.
    """
    if pause and resume:
        raise click.UsageError("Either --pause or --resume.")
    if (session is not None and (pause or resume or follow)) or (follow and (pause or resume)):
        raise click.UsageError("--pause, --resume and --follow each go alone: they are of all sessions.")
    if session is not None:
        found = syncing.freshness(session)
        telling.as_object(found) if as_json else telling.lines(_fresh(found.devices))
        return
    if pause or resume:
        now = syncing.pause(pause)
    elif follow:
        _follow(as_json)
        return
    else:
        now = syncing.status()
    telling.as_object(now) if as_json else telling.lines(_lines(now))


def _follow(as_json: bool) -> None:
    """Tell what changes; at a terminal bytes alone are a line in place, with how fast they go over."""
    line, rate, before = progress.Line(sys.stderr), progress.Rate(), None
    try:
        for now in syncing.watch():
            if as_json:
                telling.as_object(now)
                sys.stdout.flush()
                continue
            gone = sum((flow.sent or 0) + (flow.received or 0) for flow in now.flows)
            speed, left = rate.of(gone), sum(flow.bytes for flow in now.flows if flow.linked)
            words = replace(now, wanted=0, flows=tuple(replace(one, **_NUMBERS) for one in now.flows))
            if line.shows and words == before:
                line.show(f"{telling.size(left)} to go, {telling.size(int(speed))}/s")
                continue
            before = words
            line.clear()
            telling.lines([*_lines(now), ""])
            sys.stdout.flush()
    finally:
        line.clear()


_NUMBERS: dict[str, Any] = {"sent": 0, "received": 0, "behind": 0, "checkpoints": 0, "bytes": 0, "waiting": 0}
"""What changes all the time while content goes over."""


def _lines(now: Syncings) -> list[str]:
    lines = flows.here(now)
    unjoined = frozenset[str]() if all(flow.linked for flow in now.flows) else devices.unjoined()
    for flow in now.flows:
        state, *more = flows.lines(flow, now, joined=flow.device not in unjoined)
        lines += [f"{flows.named(flow.name, flow.device)}: {state}", *(f"    {one}" for one in more)]
    if not any(flow.linked for flow in now.flows) and not now.trouble:
        lines.append("No other device is linked.")
    for held in now.held:
        where = flows.named(held.name, held.device)
        lines += [
            f"Session {held.session[:12]} waits for your word before it goes to {where}:",
            "    something in it looks like a credential; hhd show says how much, at the device that found it",
            f"    hhd follow {held.session[:12]} {where} sends it, hhd unfollow keeps it back",
        ]
    return lines


def _fresh(devices: tuple[Freshness, ...]) -> list[str]:
    if not devices:
        return ["No other device said that it has it."]
    lines = []
    for one in devices:
        link = "" if one.linked else ", not linked now"
        if one.level:
            lines.append(f"{flows.named(one.name, one.device)}: has everything{link}")
        elif one.checkpoint is not None:
            lines.append(f"{flows.named(one.name, one.device)}: has it up to checkpoint {one.checkpoint[:12]}{link}")
        else:
            lines.append(f"{flows.named(one.name, one.device)}: nothing is known of it there{link}")
    return lines
