"""The command `hhd status`."""

from __future__ import annotations

import json

import click

from hhd.app import daemons
from hhd.base.errors import UsageError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.lines import write
from hhd.cli.options import JSON


@click.command("status")
@click.option("--metrics", is_flag=True, help="Print what is measured of it, in the text format of Prometheus.")
@JSON
def command(metrics: bool, as_json: bool) -> None:
    """Say whether the daemon runs, since when, and what a person may want to look at."""
    if metrics:
        if as_json:
            raise UsageError("--metrics has a format of its own, without --json.")
        write(daemons.measures())
        return
    found = daemons.status()
    if as_json:
        if found is None:
            telling.lines([json.dumps({"running": False})])
        else:
            telling.as_object(found, running=True)
        return
    if found is None:
        telling.lines(["No daemon runs here; commands do what they do by themselves. hhd up starts one."])
        return
    release = visible(found.hhd, one_line=True)
    if not found.process:
        telling.lines([f"A daemon of another age runs (hhd {release}); hhd down, and then hhd up, starts a new one."])
        return
    telling.lines(
        [
            f"The daemon runs (hhd {release}, process {found.process}), since {telling.when(found.since_ms)}.",
            f"  socket {visible(found.socket, one_line=True)}, {telling.count(found.connections, 'connection')}",
            *(f"  {visible(one, one_line=True)}" for one in found.says),
        ]
    )
