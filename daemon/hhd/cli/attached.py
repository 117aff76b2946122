"""A session that runs in the daemon, at this terminal: watched until it rests or is left, and what is said then."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import attending, sessions
from hhd.base.errors import Exit, UserError, error_of
from hhd.base.text import visible
from hhd.cli import going
from hhd.cli.capsule_report import show
from hhd.cli.hand import Hand
from hhd.cli.kept import SHORT, how_to_go_on
from hhd.cli.screen import Screen
from hhd.cli.views import TAIL_BYTES, ForPerson, ForScript
from hhd.cli.wakeups import Wakeups
from hhd.cli.watching import How, Left, Watch
from hhd_protocol import live

if TYPE_CHECKING:
    from hhd.node.attending import Attending

HEARD_SECONDS = 5
"""For the daemon to take words and answers of who leaves right after: it does so at once, unless it hangs."""


@dataclass(kw_only=True)
class InDaemon:
    """A session that the daemon runs (`hhd.cli.kept`); `folder` and `model` are those that were named this time."""

    session: str
    folder: Path | None = None
    model: str | None = None
    nowhere: bool = False
    """It has not been at work on this device."""

    def on(self) -> str:
        """The command that goes on with it, as a sentence."""
        return how_to_go_on(f"hhd resume {self.short}" + (" -C DIR" if self.nowhere else ""), self.folder, self.model)

    def over(self) -> str:
        """What is said of it once it has finished."""
        return f"Session {self.short} has finished; see it with: hhd show {self.short}"

    def fields(self) -> Mapping[str, object]:
        """What the JSON object says of it."""
        return attending.fields(self.session)

    @property
    def short(self) -> str:
        """Enough of its id to type."""
        return self.session[:SHORT]


def drive(kept: InDaemon, wakeups: Wakeups, *, as_json: bool, tail: bool) -> int:
    """Watch a session that was just begun or gone on with, as in the foreground; return the exit status.

    Ctrl-C pauses it; the end of input at a terminal, or its end, leaves it running. `tail`: of what it said before,
    show only the end.
    """
    try:
        left = _watched(kept, wakeups, quiet=as_json, tail=tail, pauses=True)
    except KeyboardInterrupt:
        on = f"Come back with: hhd attach {kept.short}"
        raise UserError(f"Interrupted; whether session {kept.short} rests is not known here. {on}") from None
    return _said(kept, left, as_json)


def begun(kept: InDaemon, as_json: bool, *, at: str | None = None, fresh: bool = True) -> int:
    """Say which session runs in the background now; return the exit status.

    `at`: the device at which it runs, where that is another one; `fresh`: it did not run before.
    """
    if as_json:
        show({"session": kept.session, "status": "running", "at": at, "exit": int(Exit.DONE)}, "", True)
        return Exit.DONE
    print(kept.session)
    if at is not None:
        how = "was asked to go on at" if fresh else "runs already at"
        there = visible(at, one_line=True)
        print(f"hhd: Session {kept.short} {how} {there}. See it with: hhd attach {kept.short}", file=sys.stderr)
    return Exit.DONE


def look(name: str, wakeups: Wakeups, *, whole: bool) -> int:
    """Watch a session, named by a person, from another terminal; return the exit status. Both keys leave it running."""
    kept = InDaemon(session=name)
    return _said(kept, _watched(kept, wakeups, quiet=False, tail=not whole, pauses=False), False)


def stream(name: str, wakeups: Wakeups, *, since: int) -> int:
    """Print what happens in a session, one JSON object a line, until it has finished or somebody stops this."""
    end = attending.attending(name, position=max(0, since - 1), by="")
    with _attached(end):
        view, screen = ForScript(since=since), Screen.of(sys.stderr)
        left = Watch(end, view=view, screen=screen, wakeups=wakeups, hand=None, pauses=False).watch()
    if left.how is How.GONE:
        raise _gone(InDaemon(session=end.name))
    if left.state is not None and left.state.name == "ended":
        return left.state.status
    return Exit.DONE


def _watched(kept: InDaemon, wakeups: Wakeups, *, quiet: bool, tail: bool, pauses: bool) -> Left:
    """Watch at this terminal; afterwards `kept` knows what was told of the session."""
    screen = Screen.of(sys.stderr if quiet else sys.stdout)
    keys = screen.target.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    end = attending.attending(kept.session, position=None if tail else 0, by=_terminal())
    with _attached(end), Hand(0, keys=keys) as hand:
        if tail:
            _to_the_end(end, wakeups)
        view = ForPerson(screen, quiet=quiet, tail=tail)
        try:
            left = Watch(end, view=view, screen=screen, wakeups=wakeups, hand=hand, pauses=pauses).watch()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            left = Left(how=How.DETACHED, state=None, spent=live.Spent(calls=0, tokens=0), asked=False)
        if left.how is How.DETACHED:
            end.heard(HEARD_SECONDS)
    kept.session = end.name
    if end.attached is not None:
        kept.nowhere = not end.attached.folder
    return left


@contextlib.contextmanager
def _attached(end: Attending) -> Iterator[None]:
    """Attach `end` while it lasts; raises UserError where the daemon that just was there is gone."""
    if not end.attach():
        raise UserError("The daemon has ended; the same command starts the next one.")
    try:
        yield
    finally:
        end.close()


def _to_the_end(end: Attending, wakeups: Wakeups) -> None:
    """Find out where the transcript ends, and attach anew not far before; a signal waits for whoever watches then."""
    from hhd.node.attending import Over

    while end.attached is None:
        if not end.unread:
            select.select([end], [], [])
        try:
            end.arrived()
        except Over:
            break
    if end.position is not None:
        end.position = max(0, end.position - TAIL_BYTES)
    if not end.attach():
        raise UserError("The daemon has ended; the same command starts the next one.")


def _said(kept: InDaemon, left: Left, as_json: bool) -> int:
    """Say how watching ended, and return the exit status."""
    if left.how is How.GONE:
        raise _gone(kept)
    state = left.state
    if left.how is How.DETACHED or state is None:
        on = "waits for you" if left.asked else "goes on by itself"
        try:
            if as_json:
                show({"session": kept.session, "status": "detached", "exit": int(Exit.DONE)}, "", True)
            else:
                print(f"hhd: Session {kept.short} {on}. Come back with: hhd attach {kept.short}", file=sys.stderr)
            sys.stdout.flush()
        except OSError:  # A terminal that is closed hears nothing.
            _hush()
        return Exit.DONE
    if state.name == "ended":
        status = Exit(state.status) if 1 <= state.status <= max(Exit) else Exit.UNEXPECTED
        on = f"Go on with: {state.ways[0]}" if state.ways else kept.on()
        raise error_of(status, f"{state.sentence} {on}")
    if state.status == Exit.UNCERTAIN and not as_json:
        with contextlib.suppress(UserError), sessions.control() as control:
            print(control.uncertain(kept.session).text)
    return going.said(kept, attending.ended(state, left.spent), as_json)


def _gone(kept: InDaemon) -> UserError:
    return UserError(
        f"The daemon has ended and no other one came. Session {kept.short} is kept as of its last step. {kept.on()}"
    )


def _hush() -> None:
    """Nothing that is still to be written reaches anybody: do not fail by it on the way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def _terminal() -> str:
    """How others hear this terminal named; empty where it is none."""
    try:
        return os.ttyname(0).removeprefix("/dev/")
    except OSError:
        return ""
