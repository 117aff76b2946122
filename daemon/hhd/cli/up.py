"""The command `hhd up`."""

from __future__ import annotations

import click

from hhd.app import daemons
from hhd.cli import telling
from hhd.cli.telling import JSON


@click.command("up")
@JSON
def command(as_json: bool) -> None:
    """Start the daemon in the background, if none runs, and wait until it answers."""
    found, started = daemons.up()
    if as_json:
        telling.as_object(found, running=True, started=started)
        return
    telling.lines([f"The daemon {'is up' if started else 'was up already'} (process {found.process})."])
