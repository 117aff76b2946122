"""The command `hhd rename`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import telling
from hhd.cli.options import HEAD, JSON, SESSION
from hhd.cli.wished import asked, subject


@click.command("rename")
@SESSION
@click.argument("title", required=False)
@click.option("--none", "nothing", is_flag=True, help="Take the title away: its first words are its title again.")
@HEAD
@JSON
def command(session: str, title: str | None, nothing: bool, head: str | None, as_json: bool) -> None:
    """Give SESSION a TITLE, or one of its heads a name, on all your devices."""
    if (title is None) is not nothing:
        raise click.UsageError("Give a title, or say --none.")
    with sessions.control() as control:
        done = control.rename(session, title, head=head)
    if as_json:
        telling.as_object(done)
        return
    nothing_now = "has no title of its own now" if head is None else "has no name now"
    now = nothing_now if done.after is None else f"is now called {telling.title(done.after)}"
    telling.lines([f"{subject(done)} {now}", *asked(done)])
