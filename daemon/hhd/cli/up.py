"""The command `hhd up`."""

from __future__ import annotations

import click

from hhd.app import daemons
from hhd.base.errors import UsageError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON


@click.command("up")
@click.option("--install", is_flag=True, help="Make it a service (systemd, launchd): started at each login, now too.")
@click.option("--force", is_flag=True, help="With --install: overwrite unit files that somebody edited.")
@JSON
def command(install: bool, force: bool, as_json: bool) -> None:
    """Start the daemon in the background, if none runs, and wait until it answers."""
    if force and not install:
        raise UsageError("--force goes with --install.")
    told: list[str] = []
    if install:
        told = daemons.install(force=force).told
    found, started = daemons.up()
    if as_json:
        telling.as_object(found, running=True, started=started, **({"installed": told} if install else {}))
        return
    telling.lines(visible(line, one_line=True) for line in told)
    telling.lines([f"The daemon {'is up' if started else 'was up already'} (process {found.process})."])
