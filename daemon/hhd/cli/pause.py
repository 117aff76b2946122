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
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.answers.driven import Rested
    from hhd.node.runs import Runs


@click.command("pause")
@click.argument("session", required=False)
@click.option("--all", "every", is_flag=True, help="Every session that is at work, or goes on by itself.")
@JSON
def command(session: str | None, every: bool, as_json: bool) -> int:
    """Pause SESSION, wherever it runs, or all of this device: durable when this returns. hhd resume goes on.

    With --all it is said of those that wait for you, too, what they wait for; they stay as they are.
    """
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
    """What became of each session that is at work, goes on by itself or waits for the person, and what was in the way
    of others."""
    found = sessions.listed("", with_archived=True)
    names = [one.id.hex() for one in found.sessions if one.state.value == "running"]
    names += runs.at_work()
    names += [
        one.id.hex()
        for one in found.sessions
        if one.state.value == "waiting for you" and one.owner == found.device and not one.archived
    ]
    rested, troubles = [], []
    for name in dict.fromkeys(names):
        try:
            rested.append(runs.pause(name))
        except UserError as error:
            troubles.append(str(error))
    return rested, troubles


def _tell(rested: list[Rested], troubles: list[str], as_json: bool) -> int:
    if as_json:
        print(json.dumps({"sessions": [telling.plain(one) for one in rested], "troubles": troubles}))
    else:
        for one in rested:
            name = telling.brief(one.session)
            waits = one.state == "waiting"
            way = f"Nothing of it runs. Answer: hhd attach {name}" if waits else f"Go on with: hhd resume {name}"
            telling.lines([f"{name}: {visible(one.sentence, one_line=True)} {way}"])
        if not rested and not troubles:
            telling.lines(["Nothing is at work."])
    for trouble in troubles:
        print(f"hhd: {visible(trouble, one_line=True)}", file=sys.stderr)
    return Exit.REFUSED if troubles else Exit.DONE
