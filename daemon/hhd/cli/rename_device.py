"""The command `hhd rename-device`."""

from __future__ import annotations

import click

from hhd.app import devices
from hhd.base.text import short
from hhd.cli import telling
from hhd.cli.options import JSON
from hhd.cli.telling import NOTE_CHARS


@click.command("rename-device")
@click.argument("name")
@click.argument("title")
@JSON
def command(name: str, title: str, as_json: bool) -> None:
    """Call the device NAME something else, TITLE, on all your devices."""
    done = devices.rename(name, title)
    if as_json:
        telling.as_object(done)
        return
    now = f"The device {done.device.id} is now called {telling.title(done.device.name)}"
    telling.lines([now, *(short(question, 2 * NOTE_CHARS) for question in done.questions)])
