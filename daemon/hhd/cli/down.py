"""The command `hhd down`."""

from __future__ import annotations

import json

import click

from hhd.app import daemons
from hhd.cli import telling
from hhd.cli.telling import JSON


@click.command("down")
@JSON
def command(as_json: bool) -> None:
    """End the daemon: what it has begun it finishes. Commands then do what they do by themselves."""
    ended = daemons.down()
    if as_json:
        telling.lines([json.dumps({"ended": ended})])
        return
    telling.lines(["The daemon has ended." if ended else "No daemon runs here."])
