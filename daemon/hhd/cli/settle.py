"""The command `hhd settle`."""

from __future__ import annotations

import click

from hhd.app import sessions
from hhd.cli import going, telling
from hhd.cli.telling import JSON, SESSION


@click.command("settle")
@SESSION
@click.argument("effect", required=False)
@click.option("--ran", metavar="OUTPUT", help="It ran, and this is what it said.")
@click.option("--did-not-run", is_flag=True, help="It did not run: it is run when the session goes on.")
@click.option("--again", is_flag=True, help="It is run again when the session goes on, whatever happened before.")
@JSON
def command(session: str, effect: str | None, ran: str | None, did_not_run: bool, again: bool, as_json: bool) -> None:
    """Say what became of the EFFECT of SESSION that was begun and not heard of again.

    EFFECT is its number; without it, the one that waits. Without a word, it is shown.
    """
    word = going.word(ran, did_not_run, again)
    with sessions.control() as control:
        if word is None:
            text = control.uncertain(session, effect)
            if as_json:
                telling.as_object(text)
                return
            telling.lines([text.text, "Say what happened: --ran OUTPUT, --did-not-run or --again."])
            return
        done = control.settle(session, effect, how=word[0], output=word[1])
    if as_json:
        telling.as_object(done)
        return
    said = {
        "ran": "is answered with that",
        "did-not-run": "is run when the session goes on",
        "again": "is run again when the session goes on",
    }
    name = telling.brief(done.session)
    telling.lines([f"{name}: effect {done.effect} ({done.op}) {said[done.word]}. Go on with: hhd resume {name}"])
