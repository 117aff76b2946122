"""The command `hhd diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import sessions
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hhd.node.answers.difference import Side
    from hhd.node.folding import Said


@click.command("diff")
@SESSION
@click.argument("heads", nargs=-1)
@JSON
def command(session: str, heads: tuple[str, ...], as_json: bool) -> None:
    """Show what two HEADS of SESSION did past the place where they part: what was said, and a line for each tool call.

    Without HEADS: its two heads. With one: the main head, and that one.
    """
    if len(heads) > 2:
        raise click.UsageError("Two heads are compared, not more.")
    with sessions.control() as control:
        found = control.diff(session, *heads)
    if as_json:
        telling.as_object(found)
        return
    parted = "have nothing in common"
    if found.fork is not None:
        parted = f"part at {telling.brief(found.fork)}"
    if found.model_calls is not None:
        parted += f", after {telling.count(found.model_calls, 'model call')}"
    told = [f"{telling.title(found.title)}  {telling.brief(found.session)}: {parted}"]
    for sign, side in (("---", found.one), ("+++", found.other)):
        told += ["", f"{sign} {_headline(side)}", *_told(side.lines)]
    telling.lines(told)


def _headline(side: Side) -> str:
    token = f", token {side.token}" if side.token is not None else ""
    done = f"{telling.count(side.model_calls, 'model call')}, {telling.count(side.calls, 'tool call')}"
    changed = f"; {files}" if (files := telling.files_of(side)) else ""
    return (
        f"{telling.brief(side.head)}  {telling.when(side.at_ms)}  {telling.device(side.device)}{token}: {done}{changed}"
    )


def _told(said: tuple[Said, ...]) -> Iterator[str]:
    for kind, text, failed, answered in said:
        if kind == "call":
            became = " (failed)" if failed else "" if answered else " (no answer yet)"
            yield f"  * {visible(text, one_line=True)}{became}"
        else:
            begin = _BEGINS.get(kind, "  ")
            yield begin + visible(text).replace("\n", "\n  ")


_BEGINS = {"user": "> ", "error": "! ", "compaction": "  (a summary) ", "finished": "  (ended) ", "raw": "  | "}
