"""The command `hhd transfers`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON


@click.command("transfers")
@click.option("--all", "with_over", is_flag=True, help="Those that are over, too. [default: the last ten of them]")
@JSON
def command(with_over: bool, as_json: bool) -> None:
    """List the handoffs that this device has or had a part in, newest first: what each did, and what to do next.

    Of those between two other devices that were asked for here, the last ones: with what was said of them last.
    """
    with sessions.control() as control:
        found = control.transfers()
    if not with_over:
        shown_over = [one for one in found if one.over][:10]
        found = [one for one in found if not one.over or one in shown_over]
    if as_json:
        telling.as_object({"transfers": found})
        return
    if not found:
        telling.lines(["No session was handed on yet: hhd transfer SESSION DEVICE does."])
    for one in found:
        way = f"{'to' if one.outgoing else 'from'} {telling.device(one.peer)}"
        if one.asked_of is not None:
            way = f"from {telling.device(one.asked_of)} to {telling.device(one.peer)}, asked for here"
        lines = [
            f"{telling.when(one.at_ms)}  {telling.title(one.title)}  {telling.brief(one.session)} {way}: "
            f"{visible(one.stage, one_line=True)}",
            f"  state: {one.continuity}; owner: {visible(one.ownership, one_line=True)}",
        ]
        if one.why:
            lines.append(f"  {visible(one.why, one_line=True)}")
        lines += [f"  {visible(note, one_line=True)}" for note in one.notes]
        if one.way:
            lines.append(f"  next: {visible(one.way, one_line=True)}")
        telling.lines(lines)
