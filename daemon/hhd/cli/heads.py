"""The command `hhd heads`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION


@click.command("heads")
@SESSION
@click.option("--all", "with_archived", is_flag=True, help="Also those that are archived.")
@JSON
def command(session: str, with_archived: bool, as_json: bool) -> None:
    """List the heads of SESSION: where each line of its work ends, when and where it was made, what it holds.

    The main head is the one that the session goes on from. None of the others is ever dropped: compare two (hhd diff),
    go on from one (hhd resume --head), make one a session of its own (hhd fork --at), say which you prefer (hhd pick),
    give one a name (hhd rename --head), or leave one out of this list (hhd archive --head).
    """
    with sessions.control() as control:
        found = control.heads(session, with_archived=with_archived)
    if as_json:
        telling.as_object(found)
        return
    many = len([one for one in found.heads if one.standing == "head"])
    telling.lines(
        [
            f"{telling.title(found.title)}  {telling.brief(found.session)}: {telling.count(many, 'head')}",
            *(line for one in found.heads for line in telling.head(one)),
            *([_left_out(found.left_out)] if found.left_out else []),
            *([_REMOVED] if found.removed else []),
        ]
    )


def _left_out(count: int) -> str:
    return f"{count} archived {'one is' if count == 1 else 'ones are'} left out; see --all."


_REMOVED = (
    "It was removed on another device, which did not know all of this; hhd rm --everywhere removes what is here, too."
)
