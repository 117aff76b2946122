"""The command `hhd fork`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION


@click.command("fork")
@SESSION
@click.option(
    "--at",
    metavar="CHECKPOINT",
    help="Where it begins: a head, by its name or id, or any checkpoint. [default: the main head]",
)
@JSON
def command(session: str, at: str | None, as_json: bool) -> None:
    """Make a new session that begins as SESSION was; both go their own way from there."""
    with sessions.control() as control:
        made = control.fork(session, at=at)
    if as_json:
        telling.as_object(made)
        return
    begin = f"begins at {telling.brief(made.checkpoint or '')} of {telling.brief(made.origin or '')}"
    telling.lines([f"{telling.title(made.title)}  {telling.brief(made.session)}: {begin}", telling.how_to_go_on(made)])
