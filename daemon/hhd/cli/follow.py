"""The commands `hhd follow` and `hhd unfollow`: which of your devices are to have a session."""

from __future__ import annotations

import click

from hhd.app import syncing
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON


@click.command("follow")
@click.argument("names", nargs=-1, required=True, metavar="SESSION DEVICE | --all DEVICE")
@click.option("--all", "every", is_flag=True, help="Every session, those to come too.")
@JSON
def command(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Let a device have a SESSION, also one that waits for your word since something in it looks like a credential."""
    _say(names, every, True, as_json)


@click.command("unfollow")
@click.argument("names", nargs=-1, required=True, metavar="SESSION DEVICE | --all DEVICE")
@click.option("--all", "every", is_flag=True, help="Every session, those to come too.")
@JSON
def unfollow(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Send nothing more of a SESSION to a device; what it has it keeps until it removes it."""
    _say(names, every, False, as_json)


def _say(names: tuple[str, ...], every: bool, follow: bool, as_json: bool) -> None:
    if len(names) != (1 if every else 2):
        raise click.UsageError("Name a device with --all, else a session and a device.")
    done = syncing.follow(None if every else names[0], names[-1], follow)
    if as_json:
        telling.as_object(done)
        return
    where = visible(done.name) or done.device[:9]
    what = f"{telling.count(done.sessions, 'session')}" if every else f"Session {done.session[:12]}"
    telling.lines([f"{what}: {where} is to have {'a copy' if follow else 'nothing more'} from now on."])
