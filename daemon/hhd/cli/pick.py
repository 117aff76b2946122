"""The command `hhd pick`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION
from hhd.cli.wished import asked


@click.command("pick")
@SESSION
@click.argument("head", required=False)
@click.option("--none", "nothing", is_flag=True, help="Prefer none of them again.")
@JSON
def command(session: str, head: str | None, nothing: bool, as_json: bool) -> None:
    """Say which HEAD of SESSION you prefer. It is a wish, shown on all your devices: it moves nothing."""
    if (head is None) is not nothing:
        raise click.UsageError("Name a head, or say --none.")
    with sessions.control() as control:
        done = control.pick(session, head)
    if as_json:
        telling.as_object(done)
        return
    now = "none of its heads is preferred" if done.after is None else f"head {telling.brief(done.after)} is preferred"
    before = f" (it was {telling.brief(done.before)})" if done.before not in (None, done.after) else ""
    telling.lines([f"{telling.brief(done.session)}: {now}{before}", *asked(done)])
