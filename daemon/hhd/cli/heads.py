"""The command `hhd heads`."""

from __future__ import annotations

import click

from hhd import app
from hhd.cli import telling
from hhd.cli.telling import JSON, SESSION


@click.command("heads")
@SESSION
@JSON
def command(session: str, as_json: bool) -> None:
    """List the heads of SESSION: where each line of its work ends, when and where it was made, what it holds.

    The main head is the one that the session goes on from. None of the others is ever dropped: compare two (hhd diff),
    make one a session of its own that goes on from there (hhd fork --at), or say which you prefer (hhd pick).
    """
    with app.control() as control:
        found = control.heads(session)
    if as_json:
        telling.as_object(found)
        return
    many = len([one for one in found.heads if one.standing == "head"])
    telling.lines(
        [
            f"{telling.title(found.title)}  {telling.brief(found.session)}: {telling.count(many, 'head')}",
            *(line for one in found.heads for line in telling.head(one)),
            *([_REMOVED] if found.removed else []),
        ]
    )


_REMOVED = (
    "It was removed on another device, which did not know all of this; hhd rm --everywhere removes what is here, too."
)
