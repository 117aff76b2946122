"""The command `hhd settle`."""

from __future__ import annotations

from hashlib import sha256

import click

from hhd.app import sessions
from hhd.base.text import short
from hhd.cli import going, telling
from hhd.cli.options import JSON, SESSION


@click.command("settle")
@SESSION
@click.argument("effect", required=False)
@click.option("--ran", metavar="OUTPUT", help="It ran, and this is what it said.")
@click.option("--did-not-run", is_flag=True, help="It did not run: it is run when the session goes on.")
@click.option("--again", is_flag=True, help="It is run again when the session goes on, whatever happened before.")
@JSON
def command(session: str, effect: str | None, ran: str | None, did_not_run: bool, again: bool, as_json: bool) -> None:
    """Say what became of the EFFECT of SESSION that was begun and not heard of again.

    EFFECT is its number; without it, the one that waits. Without a word, it is shown. Of a session that another device
    has, your word is noted there, if that lets this one approve.
    """
    word = going.word(ran, did_not_run, again)
    with sessions.control() as control:
        found = control.uncertain(session, effect)
        if word is None and as_json:
            telling.as_object(found)
            return
        if not as_json:
            telling.lines([found.text])
        if word is None:
            telling.lines(["Say what happened: --ran OUTPUT, --did-not-run or --again."])
            return
        shown = sha256(found.text.encode("utf-8", "surrogatepass")).hexdigest()
        done = control.settle(found.session, str(found.effect), how=word[0], output=word[1], shown=shown)
    if as_json:
        telling.as_object(done)
        return
    said = {
        "ran": "is answered with that",
        "did-not-run": "is run when the session goes on",
        "again": "is run again when the session goes on",
    }
    name = telling.brief(done.session)
    there = f" on {short(done.at, telling.NOTE_CHARS)}" if done.at else ""
    telling.lines([f"{name}: effect {done.effect} ({done.op}){there} {said[done.word]}. Go on with: hhd resume {name}"])
