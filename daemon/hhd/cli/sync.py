"""The command `hhd sync`: how it stands with your other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import syncing
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.telling import JSON

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
    if session is not None:
        found = syncing.freshness(session)
        telling.as_object(found) if as_json else telling.lines(_fresh(found.devices))
        return
    if pause or resume:
        now = syncing.pause(pause)
    elif follow:
        for now in syncing.watch():
            telling.as_object(now) if as_json else telling.lines([*_lines(now), ""])
        return
    else:
        now = syncing.status()
    telling.as_object(now) if as_json else telling.lines(_lines(now))


def _lines(now: Syncings) -> list[str]:
    lines = [one for one in (now.trouble, _sentence("Content is not taken", now.holding)) if one]
    if now.paused:
        lines.append("    hhd sync --resume goes on")
    if now.frugal:
        lines.append(f"Content goes together, twice a minute: {now.frugal}.")
    if now.wanted:
        lines.append(f"{telling.count(now.wanted, 'object')} of others on the way here.")
    for flow in now.flows:
        state = "has everything" if not flow.behind else f"{telling.count(flow.behind, 'session')} behind"
        lines.append(
            f"{_named(flow.name, flow.device)}: {state}, {_size(flow.sent)} sent, {_size(flow.received)} received"
        )
        if flow.holding:
            lines.append(f"    takes no content: {visible(flow.holding)}")
    if not now.flows and not now.trouble:
        lines.append("No other device is linked.")
    for held in now.held:
        lines.append(
            f"Session {held.session[:12]} waits for your word before it goes to {_named(held.name, held.device)}:"
        )
        lines.append("    something in it looks like a credential; hhd show says how much")
        where = _named(held.name, held.device)
        lines.append(f"    hhd follow {held.session[:12]} {where} sends it, hhd unfollow keeps it back")
    return lines


def _fresh(devices: tuple[Freshness, ...]) -> list[str]:
    if not devices:
        return ["No other device said that it has it."]
    lines = []
    for one in devices:
        link = "" if one.linked else ", not linked now"
        if one.level:
            lines.append(f"{_named(one.name, one.device)}: has everything{link}")
        elif one.checkpoint is not None:
            lines.append(f"{_named(one.name, one.device)}: has it up to checkpoint {one.checkpoint[:12]}{link}")
        else:
            lines.append(f"{_named(one.name, one.device)}: nothing is known of it there{link}")
    return lines


def _named(name: str, device: str) -> str:
    """What a device is called; its name is somebody's text."""
    return visible(name) or device[:9]


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}." if why else ""


def _size(count: int) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count} {unit}"
        count //= 1000
    return f"{count} TB"
