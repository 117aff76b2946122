"""The command `hhd import`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.app import sessions
from hhd.cli import progress, telling
from hhd.cli.options import JSON
from hhd.cli.typed import typed


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--passphrase-fd", type=click.IntRange(min=0), metavar="N", help="Where the passphrase comes from that sealed it."
)
@click.option(
    "--module",
    type=click.Path(path_type=Path, readable=False),
    help="The module of a capsule that has it left out.",
)
@JSON
def command(file: Path, passphrase_fd: int | None, module: Path | None, as_json: bool) -> None:
    """Make a session of the capsule FILE: always a new one, also of your own.

    The same FILE again finds the session that was made of it and changes nothing.
    """
    with progress.counting(silent=as_json):
        made = sessions.import_from(file, passphrase_fd=passphrase_fd, module=module)
    if as_json:
        telling.as_object(made)
        return
    done = "made of" if made.fresh else "was made of this capsule before:"
    sealed = f", sealed by {telling.device(made.by)}" if made.by is not None else ""
    telling.lines(
        [
            f"{telling.title(made.title)}  {telling.brief(made.session)}: {done} {typed(file)}{sealed}",
            telling.how_to_go_on(made),
        ]
    )
