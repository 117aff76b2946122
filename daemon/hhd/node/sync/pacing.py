"""Which sessions of this device the others are to be told of, and when.

A session that is at work makes a step every few milliseconds, and each message takes time of the core that it works on.
So its first step is told of at once, and what follows within `PACE_SECONDS` of that goes together. But an intent waits
for nothing: what it is of begins, and without it the others take that for what was never begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from hhd_protocol.ids import SessionId

PACE_SECONDS = 0.1
"""A tenth of the time that a person takes for at once, and some twenty steps of a session that is at work."""


class Pacing:
    """Sessions that changed and were not told of; `clock`: seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed: dict[SessionId, None] = {}
        self._rests: dict[SessionId, float] = {}
        """Until when a session that was told of a moment ago is not told of again."""

    def stepped(self, session: SessionId) -> None:
        """A session changed: it is told of at once, or with what else comes of it."""
        self._changed[session] = None

    def intends(self, session: SessionId) -> None:
        """A session changed, and is told of at once."""
        self._rests.pop(session, None)
        self._changed[session] = None

    def __contains__(self, session: SessionId) -> bool:
        """Whether a session changed and was not told of."""
        return session in self._changed

    def due(self) -> list[SessionId]:
        """Return the sessions that may be told of now, in the order in which they changed."""
        now = self._clock()
        self._rests = {session: until for session, until in self._rests.items() if until > now}
        return [session for session in self._changed if session not in self._rests]

    def told(self, session: SessionId) -> None:
        """A session is told of now, and rests: unless it intends something, it waits a moment with what comes next."""
        self._rests[session] = self._clock() + PACE_SECONDS
        self._changed.pop(session, None)

    def asked(self, session: SessionId) -> None:
        """A session is told of now, since somebody asks how far others are; it rests no longer than before."""
        self._changed.pop(session, None)

    def hurry(self) -> None:
        """Nothing waits any more."""
        self._rests.clear()

    def waits(self) -> Iterator[float]:
        """Yield for each session that is to be told of how many seconds it waits for that."""
        now = self._clock()
        return (self._rests.get(session, now) - now for session in self._changed)
