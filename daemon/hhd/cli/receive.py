"""The command `hhd receive`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.app import handoffs
from hhd.base.text import visible
from hhd.cli import progress, telling
from hhd.cli.options import JSON


@click.command("receive")
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@JSON
def command(file: Path, as_json: bool) -> None:
    """Take the session that FILE, made by `hhd transfer SESSION DEVICE --to FILE`, hands to this device.

    It is taken once, and by the device that it was made for alone.
    """
    with progress.counting(silent=as_json):
        done = handoffs.receive(file)
    if as_json:
        telling.as_object(done)
        return
    name = telling.brief(done.session)
    lines = [
        f"{telling.title(done.title)}  {name}: state is whole, compared by its digests",
        f"It is this device's now, handed on by {telling.device(done.by)}.",
    ]
    if done.folder:
        lines.append(f"Its files are in {visible(done.folder, one_line=True)}.")
    if done.instead:
        lines.append(f"Not where they belong: {visible(done.instead, one_line=True)}")
    lines += [visible(note, one_line=True) for note in done.notes]
    telling.lines([*lines, f"Go on with: hhd resume {name}{'' if done.folder else ' -C DIR'}"])
