"""The command `hhd status`."""

from __future__ import annotations

import json

import click

from hhd.app import daemons
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.telling import JSON


@click.command("status")
@JSON
def command(as_json: bool) -> None:
    """Say whether the daemon runs, and since when."""
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
