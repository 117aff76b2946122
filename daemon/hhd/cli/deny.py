"""The command `hhd deny`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.cli.deciding import FOLDER, SHOWN, decide
from hhd.cli.options import JSON, SESSION


@click.command("deny")
@SESSION
@click.argument("effect", required=False)
@FOLDER
@SHOWN
@click.option("-m", "--message", default="", help="What it should do instead.")
@JSON
def command(
    session: str, effect: str | None, folder: Path | None, shown: str | None, message: str, as_json: bool
) -> int:
    """Say no to what SESSION waits with: it is shown whole, and asked about.

    The agent hears of it, and your MESSAGE, when the session goes on: at once where it runs on another device, which
    has to let this one approve.
    """
    return decide(session, effect, folder, shown, agreed=False, message=message, as_json=as_json)
