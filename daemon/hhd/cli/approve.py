"""The command `hhd approve`."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.cli.deciding import FOLDER, SHOWN, decide
from hhd.cli.options import JSON, SESSION


@click.command("approve")
@SESSION
@click.argument("effect", required=False)
@FOLDER
@SHOWN
@JSON
def command(session: str, effect: str | None, folder: Path | None, shown: str | None, as_json: bool) -> int:
    """Say yes to what SESSION waits with: it is shown whole, and asked about.

    The yes is noted on this device and counts once, for exactly the text that was shown, when the session goes on. Of a
    session that runs on another device it is given there, if that lets this one approve, and the session goes on there.
    With --json the question is printed with its digest, and the exit status is 3; --shown DIGEST then is the yes.
    """
    return decide(session, effect, folder, shown, agreed=True, message="", as_json=as_json)
