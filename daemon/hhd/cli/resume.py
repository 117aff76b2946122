"""The command `hhd resume`: going on with a session of the store, in the daemon or in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hhd.app import attending, driving, signals
from hhd.cli import attached, going
from hhd.cli.attached import InDaemon
from hhd.cli.kept import InStore
from hhd.cli.run import MODEL, insist_on_one_way, settling
from hhd.cli.wakeups import Wakeups


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
@click.option("-d", "--detach", is_flag=True, help="Let it go on in the background, and return.")
@click.option("--foreground", is_flag=True, help="In this process, whether a daemon runs or not.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and the conversation nowhere.")
def command(
    session: str,
    folder: Path | None,
    head: str | None,
    model: str | None,
    ran: str | None,
    did_not_run: bool,
    again: bool,
    detach: bool,
    foreground: bool,
    as_json: bool,
) -> int:
    """Go on with SESSION, named by its id, its title, or the begin of either, until it waits for you.

    The daemon runs it, as with hhd run; one that another device has goes on there. What was begun when this device
    was cut off, and may not be done twice, waits for your word.
    """
    insist_on_one_way(detach=detach, foreground=foreground)
    settle = going.word(ran, did_not_run, again)
    if not foreground:
        status = _in_daemon(session, folder, head, model, settle, detach, as_json)
        if status is not None:
            return status
    with signals.stop_on_signals() as stop, driving.workbench() as bench:
        chosen = bench.named(session)
        if head is not None:
            bench.turn_to(chosen, head)
        kept = InStore(bench=bench, session=chosen, folder=folder, model=model, settle=settle)
        return going.go_on(kept, as_json, stop=stop)


def _in_daemon(
    session: str,
    folder: Path | None,
    head: str | None,
    model: str | None,
    settle: tuple[str, str] | None,
    detach: bool,
    as_json: bool,
) -> int | None:
    """The exit status; None where no daemon runs, and none is to be started."""
    with Wakeups() as wakeups:
        with attending.runs(starts=detach or os.isatty(0)) as runs:
            if runs is None:
                return None
            begun = runs.go_on(
                session,
                folder=folder,
                head=head,
                model=attending.model(model),
                settle=settle,
                environment=attending.environment(),
            )
        if not begun.fresh and not as_json and (folder is not None or model is not None or settle is not None):
            print("hhd: It runs already, so nothing of what else was said here was heeded.", file=sys.stderr)
        kept = InDaemon(session=begun.session, folder=folder, model=model)
        if detach:
            return attached.begun(kept, as_json, at=begun.at, fresh=begun.fresh)
        return attached.drive(kept, wakeups, as_json=as_json, tail=True)
