"""The command `hhd export`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.app import sessions
from hhd.cli import progress, telling
from hhd.cli.options import JSON, SESSION
from hhd.cli.typed import typed


@click.command("export")
@SESSION
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--head", metavar="CHECKPOINT", help="Another head than the main one, or any checkpoint.")
@click.option("--to", "to", metavar="DEVICE", help="Seal it to one of your devices: only that one can open it.")
@click.option("--passphrase-fd", type=click.IntRange(min=0), metavar="N", help="Seal it with what descriptor N gives.")
@click.option("--without-module", is_flag=True, help="Leave the program itself out of the file.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@JSON
def command(
    session: str,
    file: Path,
    head: str | None,
    to: str | None,
    passphrase_fd: int | None,
    without_module: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write SESSION to the capsule FILE: a copy, which carries no right to advance the session.

    Without --to or --passphrase-fd it is not encrypted. A passphrase is one line; `--passphrase-fd 0` reads it from
    standard input.
    """
    if to is not None and passphrase_fd is not None:
        raise click.UsageError("A capsule is sealed to a device or with a passphrase, not both.")
    with progress.counting(silent=as_json):
        made, size = sessions.export_to(
            session, file, head=head, to=to, passphrase_fd=passphrase_fd, embed=not without_module, force=force
        )
    if as_json:
        fields = {name: one for name, one in telling.fields(made).items() if name not in ("parts", "size")}
        telling.as_object(fields, file=str(file), bytes=size)
        return
    how = "not encrypted"
    if made.sealed:
        how = "sealed with a passphrase" if made.to is None else f"sealed to {telling.device(made.to)}"
    telling.lines(
        [
            f"{typed(file)}: {telling.title(made.title)} at {telling.brief(made.checkpoint)}, {size:,} bytes, {how}",
        ]
    )
