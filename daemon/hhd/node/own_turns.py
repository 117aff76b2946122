"""The turns of one worker, as it has them itself: asked for where it has none, kept while nobody else waits for them.

The other end of `hhd.node.turns`, whose table holds for both. The thread that drives the session uses turns, the one
that listens hears of them: it gives a turn back that is kept and not used, in the moment in which it is asked. So is
one whose session rests.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from hhd.node import pair

TURN_SECONDS = 60.0
"""For its turn to come; then it goes on without, rather than not at all."""


class OwnTurns:
    """To compute, and to write. `say` tells the daemon; it is called in order, by one thread at a time."""

    def __init__(self, say: Callable[[pair.Wants | pair.Gives | pair.AtIt], None]) -> None:
        self._say = say
        self._came = threading.Condition()
        self._has: dict[bool, pair.Turn] = {}
        self._used: set[bool] = set()
        """Those that are used, or waited for."""
        self._gone = False

    # What is heard

    def given(self, turn: pair.Turn) -> None:
        """A turn came; one that nobody waits for any more was given back already."""
        with self._came:
            if turn.writes in self._used:
                self._has[turn.writes] = turn
                self._came.notify_all()

    def asked(self, *, writes: bool) -> None:
        """Others wait: it goes back now, or as soon as it is not used."""
        with self._came:
            if writes in self._used:
                if (turn := self._has.get(writes)) is not None:
                    self._has[writes] = replace(turn, kept=False)
                self._say(pair.AtIt(writes=writes))
            elif self._has.pop(writes, None) is not None:
                self._say(pair.Gives(writes=writes))

    def wake(self) -> None:
        """Something happened that may make a turn needless."""
        with self._came:
            self._came.notify_all()

    def end(self) -> None:
        """The daemon is gone: no turn comes any more, and none is needed."""
        with self._came:
            self._gone = True
            self._came.notify_all()

    # What is done

    def rest(self) -> None:
        """Give back what is kept and not used: the session waits, maybe for long."""
        with self._came:
            for writes in [one for one in self._has if one not in self._used]:
                del self._has[writes]
                self._say(pair.Gives(writes=writes))

    @contextlib.contextmanager
    def used(self, *, writes: bool, needless: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """Its turn, for as long as this lasts; yields for how many milliseconds it may compute, 0: no bound.

        Entered without one where none came in time, where `needless` says so after a wake, and without a daemon.
        """
        try:
            with self._came:
                self._used.add(writes)
                if writes not in self._has:
                    self._say(pair.Wants(writes=writes))
                    self._came.wait_for(lambda: writes in self._has or self._gone or needless(), TURN_SECONDS)
                turn = self._has.get(writes)
            yield 0 if turn is None else turn.busy_ms
        finally:
            with self._came:
                self._used.discard(writes)
                turn = self._has.get(writes)
                if turn is None or not turn.kept:  # What came too late is given back with what was wanted.
                    self._has.pop(writes, None)
                    self._say(pair.Gives(writes=writes))
