"""Tells the daemon of each step that a session makes in a process of its own: other devices are to hear of it at once.

The daemon looks every two seconds whether another process wrote to the store. That is late for a command that begins:
who takes the session over meanwhile would not know that it may have run. Nothing waits for it and nothing rests on it:
where no daemon answers, the look finds what there is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from hhd.base.errors import UserError
from hhd.base.paths import data_folder
from hhd.base.release import RELEASE
from hhd.control import address, talk
from hhd.control.client import GoneError
from hhd.control.talk import Talk
from hhd.node.asking import values
from hhd_protocol.ids import SessionId

UNANSWERED_MAX = 8
"""Steps that the daemon was told of and did not answer: it is busy, and its look finds the rest together."""
TRIES_APART = 64
"""Where no daemon is there, it is tried again at each step that begins something, else so many steps later; where
one is there and says nothing, so many steps later, since each try waits for it."""


class Nudge:
    """Of one session; `connect` gives a connection to the daemon, None where none runs."""

    def __init__(self, session: SessionId, connect: Callable[[], Talk | None] | None = None) -> None:
        self._session, self._connect = session, connect or _talk
        self._talk: Talk | None = None
        self._unanswered, self._passed, self._hangs = 0, TRIES_APART, False

    def stepped(self, *, intent: bool) -> None:
        """A step of it is durable; with `intent` something begins now."""
        try:
            if not self._is_connected(intent):
                return
            assert self._talk is not None
            if self._unanswered < UNANSWERED_MAX:
                self._talk.begin("sync_stepped", values({"session": self._session, "intent": intent}))
                self._unanswered += 1
            self._hangs = False
        except (UserError, OSError) as error:
            self._hangs = not isinstance(error, GoneError)
            self.close()

    def close(self) -> None:
        """No more of it is told."""
        if self._talk is not None:
            self._talk.close()
        self._talk, self._unanswered, self._passed = None, 0, 0

    def _is_connected(self, intent: bool) -> bool:
        if self._talk is not None:
            try:
                self._unanswered -= len(self._talk.arrived())
            except UserError:  # That daemon is gone; there may be the next one.
                self.close()
                self._passed = TRIES_APART
        if self._talk is None:
            self._passed += 1
            if (intent and not self._hangs) or self._passed > TRIES_APART:
                self._passed = 0
                self._talk = self._connect()
        return self._talk is not None


def _talk() -> Talk | None:
    with contextlib.suppress(OSError):
        if (path := address.said(data_folder())) is not None:
            return talk.connect(path, hhd=RELEASE)
    return None
