"""The command `hhd log`."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from hhd.app import sessions, signals
from hhd.base.text import short
from hhd.cli import telling
from hhd.cli.lines import write
from hhd.cli.options import SESSION

if TYPE_CHECKING:
    from hhd.node.answers.logged import Logged

FOLLOW_SECONDS = 0.25
"""Between two looks at the store while following: what is new is seen at once, and a core sleeps."""


@click.command("log")
@SESSION
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--since", metavar="POSITION", help="Only what came after this position, which a log printed.")
@click.option(
    "-n", "--newest", type=click.IntRange(min=0), metavar="N", help="The N that came last. Quick, however long it is."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def command(session: str, follow: bool, since: str | None, newest: int | None, as_json: bool) -> None:
    """List the checkpoints of SESSION and all else that devices signed in it, in the order it came here.

    Each line begins with its position.
    """
    with sessions.control() as control:
        if not follow:
            for one in control.log(session, since=since, newest=newest):
                _tell(one, as_json)
            return
        with signals.stop_on_signals() as stop:

            def wait() -> bool:
                time.sleep(FOLLOW_SECONDS)
                return not stop.is_set

            for one in control.follow(session, since=since, newest=newest, wait=wait):
                _tell(one, as_json)
                if stop.is_set:
                    return


def _tell(one: Logged, as_json: bool) -> None:
    write((json.dumps(telling.plain(one)) if as_json else line(one)) + "\n")
    sys.stdout.flush()


def line(one: Logged) -> str:
    """One statement on one line."""
    token = f"token {one.token}" if one.token is not None else "token ?"
    marks = [word for word, there in (("turn", one.turn), ("head", one.head), ("thinned", one.thinned)) if there]
    marks += [one.standing] if one.standing != "counts" else []
    marks += [f"effect {position} {progress}" for position, progress in one.effects]
    note = f": {short(one.note, telling.NOTE_CHARS)}" if one.note else ""
    shown = f" ({', '.join(marks)})" if marks else ""
    who = f"{telling.device(one.device)} #{one.number}"
    return f"{one.position}  {telling.when(one.at_ms)}  {who}, {token}  {one.kind} {telling.brief(one.id)}{shown}{note}"
