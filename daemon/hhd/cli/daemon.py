"""The command `hhd daemon`."""

from __future__ import annotations

import click

from hhd.app import daemons


@click.command("daemon")
@click.option("--detach", is_flag=True, hidden=True, help="Let go of the standard streams once it listens.")
def command(detach: bool) -> None:
    """Be the daemon, in the foreground: what a service unit starts. `hhd up` starts it in the background."""
    daemons.run(daemons.detach if detach else lambda: None)
