"""The command `hhd archive`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import telling
from hhd.cli.options import HEAD, JSON, SESSION
from hhd.cli.wished import asked, subject

ARCHIVED = "1"
"""How the shared document says that something is archived."""


@click.command("archive")
@SESSION
@click.option("--undo", is_flag=True, help="Show it in lists again.")
@HEAD
@JSON
def command(session: str, undo: bool, head: str | None, as_json: bool) -> None:
    """Leave SESSION out of lists, or one of its heads out of hhd heads, on all your devices; nothing is removed.

    A head is listed again once there is new work on it.
    """
    with sessions.control() as control:
        done = control.archive(session, undo=undo, head=head)
    if as_json:
        flags = {"before": done.before == ARCHIVED, "after": done.after == ARCHIVED}
        telling.as_object(telling.fields(done) | flags)
        return
    undoing = f"hhd archive --undo {telling.brief(done.session)}" + (
        f" --head {telling.brief(done.head)}" if done.head else ""
    )
    now = "is listed again" if undo else f"is archived; {undoing} shows it again"
    telling.lines([f"{subject(done)} {now}", *asked(done)])
