"""The command `hhd resume`: going on with a session of the store, in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from hhd.app import driving, signals
from hhd.cli import going
from hhd.cli.kept import InStore
from hhd.cli.run import MODEL, settling


@click.command("resume")
@click.argument("session")
@click.option(
    "-C",
    "--folder",
    type=click.Path(path_type=Path, readable=False),
    help="The folder to work in. [default: where it last was at work on this device]",
)
@click.option("--head", metavar="HEAD", help="Go on from this head, see hhd heads, whoever owned the session before.")
@MODEL
@settling
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and the conversation nowhere.")
def command(
    session: str,
    folder: Path | None,
    head: str | None,
    model: str | None,
    ran: str | None,
    did_not_run: bool,
    again: bool,
    as_json: bool,
) -> int:
    """Go on with SESSION, named by its id, its title, or the begin of either, until it waits for you.

    Ctrl-C pauses it. What was begun when this device was cut off, and may not be done twice, waits for your word.
    """
    settle = going.word(ran, did_not_run, again)
    with signals.stop_on_signals() as stop, driving.workbench() as bench:
        chosen = bench.named(session)
        if head is not None:
            bench.turn_to(chosen, head)
        kept = InStore(bench=bench, session=chosen, folder=folder, model=model, settle=settle)
        return going.go_on(kept, as_json, stop=stop)
