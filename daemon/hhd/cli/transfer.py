"""The command `hhd transfer`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.app import handoffs
from hhd.cli import telling
from hhd.cli.telling import JSON, SESSION
from hhd.cli.typed import typed


@click.command("transfer")
@SESSION
@click.argument("device")
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Into a file, for a device that is never online together with this one; it takes it with: hhd receive FILE.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@JSON
def command(session: str, device: str, file: Path | None, force: bool, as_json: bool) -> None:
    """Hand SESSION on to DEVICE, where it goes on: same state, same conversation, same files.

    From the moment that it is released it is no longer this device's.
    """
    if file is None:
        raise click.UsageError("Name a FILE with --to.")
    made, size = handoffs.release_to_file(session, device, file, force=force)
    if as_json:
        fields = {name: one for name, one in telling.fields(made).items() if name != "parts"}
        telling.as_object(fields, file=str(file), bytes=size)
        return
    again = "" if made.fresh else " once more, with the same release"
    telling.lines(
        [
            f"{typed(file)}: {telling.title(made.title)}  {telling.brief(made.session)} for {telling.device(made.to)}, "
            f"{size:,} bytes, written{again}",
            "It is no longer this device's. There: hhd receive FILE",
            f"If it is never taken: hhd takeover {telling.brief(made.session)} --reason TEXT",
        ]
    )
