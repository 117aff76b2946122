"""The command `hhd takeover`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from hhd.app import handoffs, sessions
from hhd.base.errors import Exit, RefusedError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.agreeing import agreed
from hhd.cli.options import JSON, SESSION

if TYPE_CHECKING:
    from hhd.node.answers.takeover import Takeable, TakenOver


@click.command("takeover")
@SESSION
@click.option("--reason", required=True, metavar="TEXT", help="Why: it is signed, and shown on all your devices.")
@click.option("--head", metavar="CHECKPOINT", help="Go on from this head, instead of the last one of its owner.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def command(session: str, reason: str, head: str | None, yes: bool, as_json: bool) -> None:
    """Take SESSION over from another device, which is gone or never took it; says what that costs, and asks.

    It goes on from the last checkpoint that is here. What the other device did since, or still does, is kept as a
    head of its own, once it is seen again.
    """
    words = handoffs.reason(reason)
    with sessions.control() as control:
        shown = control.takeable(session, head=head)
        if not as_json:
            telling.lines(_would(shown))
        if not yes and not agreed("Take it over?", as_json=as_json):
            raise RefusedError("Nobody agreed, so nothing was taken over; --yes does it without asking.")
        done = control.take_over(shown, words)
    if as_json:
        telling.as_object(done, age_ms=shown.age_ms, clock=shown.clock, doubts=shown.doubts)
    else:
        telling.lines(_did(done))
    if done.uncertain:
        sys.exit(Exit.UNCERTAIN)


def _would(shown: Takeable) -> list[str]:
    owner = "no device" if shown.owner is None else telling.device(shown.owner)
    whose = "by this device's clock" if shown.clock == "ours" else "by the clock of the device that made it"
    lines = [
        f"{telling.title(shown.title)}  {telling.brief(shown.session)}: {owner} has it (token {shown.token})",
        f"  to go on from: {telling.brief(shown.head)} by {telling.device(shown.by)}, {_age(shown.age_ms)} old "
        f"{whose}; what was done after that is not here",
    ]
    if shown.behind:
        newer = telling.count(shown.behind, "newer checkpoint")
        lines.append(f"  {newer} of it {'is' if shown.behind == 1 else 'are'} known here, and the content did not come")
    if shown.handoff:
        lines.append(f"  a handoff that is {shown.handoff} ends with it")
    if shown.capture:
        where = f"in {visible(shown.folder, one_line=True)}" if shown.folder else "in a folder of hhd's"
        lines.append(f"  its files, as they were at that moment, appear {where}")
    else:
        lines.append("  its files were not captured at that moment: name a folder when you go on")
    if not shown.doubts:
        lines.append("  nothing is known to have run since")
    for doubt in shown.doubts:
        lines.append(f"  effect {doubt.effect} ({visible(doubt.op, one_line=True)}) may have run since:")
        lines += [f"    {line}" for line in visible(doubt.text).split("\n")]
    return lines


def _did(done: TakenOver) -> list[str]:
    name = telling.brief(done.session)
    lines = [f"{name} is this device's now (token {done.token}), from {telling.brief(done.head)}."]
    if done.folder:
        lines.append(f"Its files are in {visible(done.folder, one_line=True)}.")
    if done.instead:
        lines.append(f"Not where they belong: {visible(done.instead, one_line=True)}")
    lines += [visible(note, one_line=True) for note in done.notes]
    word = f"Say first what became of what may have run: hhd settle {name}" if done.uncertain else ""
    return [*lines, word or f"Go on with: hhd resume {name}{'' if done.folder else ' -C DIR'}"]


def _age(age_ms: int) -> str:
    """How old, in the two largest units."""
    seconds = age_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h {minutes % 60:.0f} min" if days < 2 else f"{days:.0f} days"
