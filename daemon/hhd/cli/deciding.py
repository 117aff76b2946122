"""Approving and denying: the whole question is shown, and the answer is of exactly what went to the screen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hhd.app import sessions
from hhd.base.dialogue import held, paged
from hhd.base.errors import Exit, RefusedError
from hhd.base.text import short
from hhd.cli import telling
from hhd.cli.keyboard import Keyboard
from hhd.cli.paint import Paper

if TYPE_CHECKING:
    from hhd.node.answers.decided import Asked

FOLDER = click.option(
    "-C",
    "--folder",
    type=click.Path(path_type=Path, readable=False),
    help="The folder it would work in. [default: where the session last was at work on this device]",
)
SHOWN = click.option(
    "--shown", metavar="DIGEST", help="Do not ask: the answer is to the text of this digest, which --json printed."
)


def decide(
    session: str,
    effect: str | None,
    folder: Path | None,
    shown: str | None,
    *,
    agreed: bool,
    message: str,
    as_json: bool,
) -> int:
    """Show what waits, ask, and note the answer; return the exit status."""
    folder = None if folder is None else folder.absolute()  # The question names it, whoever is asked.
    with sessions.control() as control:
        if shown is None:
            asked = control.asked(session, effect, folder=folder)
            if as_json:
                telling.as_object(asked, exit=int(Exit.REFUSED))
                return Exit.REFUSED
            shown = _seen(asked, agreed=agreed)
            session, effect = asked.session, str(asked.effect)
        done = control.decide(session, effect, shown=shown, agreed=agreed, message=message, folder=folder)
    if as_json:
        telling.as_object(done)
        return Exit.DONE
    name = telling.brief(done.session)
    if done.at:
        at = short(done.at, telling.NOTE_CHARS)
        said = f"effect {done.effect} is {done.word} on {at}, where it goes on. See it with: hhd attach {name}"
    else:
        said = f"effect {done.effect} ({done.op}) is {done.word} here. Go on with: hhd resume {name}"
    telling.lines([f"{name}: {said}"])
    return Exit.DONE


def _seen(asked: Asked, *, agreed: bool) -> str:
    """Show the question page by page and ask; return the digest of what was shown, if they said yes."""
    paper = Paper.of(sys.stdout)
    keyboard = Keyboard(fd=0, paper=paper)
    seen = held(paged(asked.pages), write=paper.write, read=keyboard.line)
    if seen is None:
        raise RefusedError("It was not shown whole, so nothing was decided.")
    answer = keyboard.line(f"{'Approve' if agreed else 'Deny'} it? y = yes, anything else = later: ")
    if answer is None or answer.strip().lower() not in ("y", "yes"):
        raise RefusedError("Nobody answered with a yes, so nothing was decided.")
    return seen.hex()
