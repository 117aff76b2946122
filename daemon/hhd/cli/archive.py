"""The command `hhd archive`."""

from __future__ import annotations

import click

from hhd import app
from hhd.cli import telling
from hhd.cli.telling import JSON, SESSION
from hhd.cli.wished import asked


@click.command("archive")
@SESSION
@click.option("--undo", is_flag=True, help="Show it in lists again.")
@JSON
def command(session: str, undo: bool, as_json: bool) -> None:
    """Leave SESSION out of lists, on all your devices; nothing of it is removed."""
    with app.control() as control:
        done = control.archive(session, undo=undo)
    if as_json:
        telling.as_object(done)
        return
    now = "is listed again" if undo else "is archived; hhd archive --undo shows it again"
    telling.lines([f"{telling.brief(done.session)} {now}", *asked(done)])
