"""The command `hhd attach`."""

from __future__ import annotations

import click

from hhd.app import attending
from hhd.base.errors import UsageError
from hhd.cli import attached
from hhd.cli.options import SESSION
from hhd.cli.wakeups import Wakeups


@click.command("attach")
@SESSION
@click.option("--all", "whole", is_flag=True, help="Show all of what was said before, and not the last turn only.")
@click.option("--since", metavar="POSITION", type=click.IntRange(min=0), help="With --json: go on after this position.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, each with its position.")
def command(session: str, whole: bool, since: int | None, as_json: bool) -> int:
    """Come to SESSION at this terminal, be it at work or at rest: what was said, then what comes, and what it asks.

    It may run on another device of yours: it is shown from there, and followed when it is handed over. Several
    terminals may be there at once; the first answer counts. Ctrl-C and Ctrl-D leave it as it is. With --json
    nothing is answered: it is the stream for scripts, which ends where the session has finished.
    """
    if since is not None and not as_json:
        raise UsageError("--since goes with --json; at a terminal, --all shows everything.")
    with Wakeups() as wakeups:
        with attending.runs(starts=True):
            pass
        if as_json:
            return attached.stream(session, wakeups, since=since or 0)
        return attached.look(session, wakeups, whole=whole)
