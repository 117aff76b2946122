"""A handoff as a command tells it: asked of the daemon, each step said as it comes, given up by Ctrl-C.

Imports no click: the command is read without it where it is plain (`hhd.cli.quick`), which takes as long as the rest.
"""

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hhd.app import handoffs
from hhd.base.errors import Exit, RefusedError, UncertainError
from hhd.base.text import visible
from hhd.cli import telling

if TYPE_CHECKING:
    from hhd.cli.progress import Line
    from hhd.node.answers.handoff import Moved

STAGES = ("offered", "admitted", "staged", "ready", "released", "acknowledged")
"""As the bar fills."""


def hand(
    session: str, device: str, *, cancel_running: bool, dry_run: bool, deadline_seconds: float | None, as_json: bool
) -> int:
    """Hand `session` on to `device`, say how that goes, and return the exit status."""
    last: Moved | None = None
    asked = handoffs.Transfer(
        session, device, cancel_running=cancel_running, dry_run=dry_run, deadline_ms=int((deadline_seconds or 0) * 1000)
    )
    with asked:
        try:
            with contextlib.nullcontext() if as_json else _beside() as line:
                for moved in asked.steps():
                    last = moved
                    if line is None:
                        telling.as_object(moved)
                    else:
                        line.clear()
                        _tell(moved)
        except KeyboardInterrupt:
            if dry_run:
                raise
            return _leave(asked, last, as_json)
    return Exit.UNEXPECTED if last is None else last.status


def _beside() -> AbstractContextManager[Line]:
    """The line that says how much has gone over."""
    from hhd.app import syncing
    from hhd.cli import progress

    return progress.beside(syncing.gone_over())


def _leave(asked: handoffs.Transfer, last: Moved | None, as_json: bool) -> int:
    """Ctrl-C: say whether that undid it, or it goes on without this terminal."""
    try:
        now = asked.leave(last)
    except RefusedError:
        if last is None or last.over:  # It was not begun, or over just before.
            raise KeyboardInterrupt from None
        raise UncertainError("Interrupted. How it stands: hhd transfers") from None
    if as_json:
        telling.as_object(now)
        return now.status if now.over else Exit.UNCERTAIN
    sentence = visible(now.sentence, one_line=True)
    if now.stage == "aborted" and now.over:
        print(f"Given up before it was released: {now.continuity}; {now.ownership}.", file=sys.stderr)
        return now.status
    if now.stage == "released" and not now.over:
        sentence += " Nothing undoes that: it goes on without this terminal, and hhd transfers shows it."
    print(sentence, file=sys.stderr)
    if now.over and now.way:
        print(visible(now.way, one_line=True), file=sys.stderr)
    return now.status if now.over else Exit.UNCERTAIN


def _tell(moved: Moved) -> None:
    at = STAGES.index(moved.stage) + 1 if moved.stage in STAGES else 0
    bar = "#" * at + "." * (len(STAGES) - at)
    print(f"[{bar}] {visible(moved.sentence, one_line=True)}", file=sys.stderr, flush=True)
    for note in moved.notes if moved.stage == "admitted" or moved.over else ():
        print(f"        {visible(note, one_line=True)}", file=sys.stderr, flush=True)
    if not moved.over:
        return
    paused = f" It did not run for {moved.pause_ms} ms." if moved.pause_ms else ""
    telling.lines(
        [
            *([f"state: {visible(moved.continuity, one_line=True)}.{paused}"] if moved.continuity else []),
            *([f"owner: {visible(moved.ownership, one_line=True)}."] if moved.ownership else []),
            *([visible(moved.way, one_line=True)] if moved.way else []),
        ]
    )
