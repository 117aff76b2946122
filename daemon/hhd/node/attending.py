"""A terminal's end of a session that runs in the daemon: what happens there, and what is said to it, without waiting.

The place in the transcript up to which everything came is kept, so that who connects anew, be it to another daemon,
gets every byte once.
"""

from __future__ import annotations

import dataclasses
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hhd.base.errors import Exit, UserError, error_of
from hhd.control.client import GoneError
from hhd.control.talk import Talk
from hhd.node.answers.driven import Counted, Heard, Rested
from hhd.node.asking import Asking, values
from hhd_protocol import live
from hhd_protocol.control import Answer, End, Event, Failed

_ANSWERS: dict[str, Any] = {"say": Heard, "answer": Counted, "pause": Rested, "keys": bool}


@dataclass(frozen=True, kw_only=True)
class Told:
    """What came of something that was asked: a record, or the error that the daemon said."""

    verb: str
    answer: Heard | Counted | Rested | bool | None = None
    error: UserError | None = None


class Over(Exception):
    """Nothing more comes: the daemon ends, or is gone, or has forgotten the session. Who attaches anew hears which."""


class Attending:
    """Attached to the session that `name` means, by `talk`; each gives a connection, None where no daemon runs.

    `position`: the byte of the transcript from which on it is told; None for nothing of what is there already.
    """

    def __init__(self, talk: Callable[[], Talk | None], name: str, *, position: int | None, by: str = "") -> None:
        self._connect, self.name, self._wished = talk, name, by
        self.position = position
        self.attached: live.Attached | None = None
        """What was told of the session; None until it was, on each connection."""
        self._talk: Talk | None = None

    def attach(self) -> bool:
        """Connect and attach, from where it was; False where no daemon runs. What was asked before stays unanswered.

        Raises RefusedError where one of the two is too old.
        """
        self.close()
        talk = self._connect()
        if talk is None:
            return False
        self._talk, self._asking = talk, Asking(talk)
        self.attached, self._open, self._over = None, dict[int, str](), False
        given = {"name": self.name, "position": self.position, "by": self._wished}
        try:
            self._stream = talk.begin("attach", values(given))
        except GoneError:  # It was about to end.
            return False
        return True

    def close(self) -> None:
        """End the connection; the session goes on."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    def fileno(self) -> int:
        """What to wait for, unless something is `unread`."""
        assert self._talk is not None
        return self._talk.fileno()

    @property
    def unread(self) -> bool:
        """Whether `arrived` has something to say already."""
        return self._talk is not None and (self._over or self._talk.unread)

    def arrived(self) -> list[live.Event | Told]:
        """What came since, in order; never waits.

        Raises Over once nothing more comes, and the UserError that was said instead of attaching.
        """
        assert self._talk is not None
        if self._over:
            raise Over
        try:
            came = self._talk.arrived()
        except GoneError:
            raise Over from None
        found: list[live.Event | Told] = []
        for said in came:
            match said:
                case Event(id=id, event=value) if id == self._stream:
                    found += self._happened(self._asking.event(value))
                case Failed(id=id, sentence=sentence, exit=status) if id == self._stream and self.attached is None:
                    raise error_of(Exit(status), sentence)
                case End(id=id) | Failed(id=id) if id == self._stream:
                    self._over = True
                case Answer(id=id, result=result) if (verb := self._open.pop(id, None)) is not None:
                    found.append(Told(verb=verb, answer=self._asking.read(_ANSWERS[verb], result)))
                case Failed(id=id, sentence=sentence, exit=status) if (verb := self._open.pop(id, None)) is not None:
                    found.append(Told(verb=verb, error=error_of(Exit(status), sentence)))
                case _:
                    raise self._asking.odd("nobody asked for it")
        return found

    def _happened(self, event: live.Event) -> list[live.Event]:
        """The event, without bytes of the transcript that were told before."""
        if isinstance(event, live.Attached):
            if self.attached is not None:
                raise self._asking.odd("it attached twice")
            self.attached, self.name = event, event.session  # However titles change, it is this one.
            self.position = event.position if self.position is None else self.position
        elif self.attached is None or self.position is None:
            raise self._asking.odd("it tells of a session before it says which")
        elif isinstance(event, live.Emitted):
            if event.position > self.position:
                raise self._asking.odd("a part of the transcript is missing")
            fresh = event.piece[self.position - event.position :]
            event = dataclasses.replace(event, position=self.position, piece=fresh)
            self.position += len(fresh)
        return [event]

    # What is said; what comes of each is among what arrives, as `Told`

    def say(self, text: str) -> None:
        """Say words to the session."""
        self._ask("say", text=text, by=self._by)

    def answer(self, question: live.Question, *, shown: bytes, choice: str, message: str = "") -> None:
        """Answer a question; `shown`: the digest of what went to the screen."""
        self._ask("answer", id=question.id, shown=shown, choice=choice, message=message, by=self._by)

    def pause(self) -> None:
        """Pause the session."""
        self._ask("pause")

    def heard(self, seconds: float) -> None:
        """Wait until the daemon has taken what was said and answered here, for so long at most.

        For who leaves: what is being taken from a terminal that is gone is not taken.
        """
        end = time.monotonic() + seconds
        while self._talk is not None and not self._over and not {"say", "answer"}.isdisjoint(self._open.values()):
            left = end - time.monotonic()
            if not self.unread and (left <= 0 or not select.select([self], [], [], left)[0]):
                return
            try:
                self.arrived()
            except (Over, UserError):
                return

    def keys(self, line: str) -> None:
        """Show the others what stands on the line."""
        self._ask("keys", line=line, by=self._by)

    @property
    def _by(self) -> str:
        return self._wished if self.attached is None else self.attached.by

    def _ask(self, verb: str, **given: object) -> None:
        assert self._talk is not None
        self._open[self._talk.begin(verb, values({"name": self.name, **given}))] = verb
