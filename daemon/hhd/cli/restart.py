"""The command `hhd restart`."""

from __future__ import annotations

import click

from hhd.app import daemons
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON


@click.command("restart")
@click.option("--config", "only_config", is_flag=True, help="Only let the daemon that runs read config.toml anew.")
@JSON
def command(only_config: bool, as_json: bool) -> None:
    """End the daemon and start the hhd that is installed now, as after an upgrade: sessions pause, and go on with it.

    With --config nothing is ended; a configuration that cannot be read changes nothing, and is said.
    """
    if only_config:
        done = daemons.reload()
        if as_json:
            telling.as_object(done)
            return
        telling.lines([f"The configuration was read anew. {visible(done.applies, one_line=True)}"])
        return
    found, ran = daemons.restart()
    if as_json:
        telling.as_object(found, running=True, restarted=ran)
        return
    release = visible(found.hhd, one_line=True)
    did = "was started anew" if ran else "is up; none ran before"
    telling.lines([f"The daemon {did} (hhd {release}, process {found.process})."])
