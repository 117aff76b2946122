"""The command `hhd pause`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from hhd.app import attending, sessions
from hhd.base.errors import Exit, RefusedError, UsageError, UserError
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.telling import JSON

if TYPE_CHECKING:
    from hhd.node.answers.driven import Rested
    from hhd.node.runs import Runs


@click.command("pause")
@click.argument("session", required=False)
@click.option("--all", "every", is_flag=True, help="Every session that is at work.")
@JSON
def command(session: str | None, every: bool, as_json: bool) -> int:
    """Pause SESSION, wherever it runs, or all of this device: durable when this returns. hhd resume goes on."""
    if (session is None) != every:
        raise UsageError("Name a session, or say --all.")
    with attending.runs(starts=False) as runs:
        if runs is None:
            raise RefusedError(
                "No daemon runs here, so nothing is at work in the background; nothing was changed. "
                "A session in the foreground of a terminal is paused by Ctrl-C there."
            )
        if session is not None:
            return _tell([runs.pause(session)], [], as_json)
        return _tell(*_all(runs), as_json)


def _all(runs: Runs) -> tuple[list[Rested], list[str]]:
    """What became of each session that is at work, and what was in the way of others."""
    at_work = [one for one in sessions.listed("", with_archived=True).sessions if one.state.value == "running"]
    rested, troubles = [], []
    for one in at_work:
        try:
            rested.append(runs.pause(one.id.hex()))
        except UserError as error:
            troubles.append(str(error))
    return rested, troubles


def _tell(rested: list[Rested], troubles: list[str], as_json: bool) -> int:
    if as_json:
        print(json.dumps({"sessions": [telling.plain(one) for one in rested], "troubles": troubles}))
    else:
        for one in rested:
            name = telling.brief(one.session)
            telling.lines([f"{name}: {visible(one.sentence, one_line=True)} Go on with: hhd resume {name}"])
        if not rested and not troubles:
            telling.lines(["Nothing is at work."])
    for trouble in troubles:
        print(f"hhd: {visible(trouble, one_line=True)}", file=sys.stderr)
    return Exit.REFUSED if troubles else Exit.DONE
