"""Whose turn it is to compute, or to write: some at a time, first come, first served, so that no session starves.

Programs of sessions mostly wait. Where many compute at once, each gets a turn after those that asked before it, and
gives it back after a short while if others wait; so all go on, and the machine still has time for what the person does.
"""

from __future__ import annotations

import os
from collections.abc import Hashable

AT_ONCE = 2 * (os.cpu_count() or 1)
"""Two for each processor: one may wait for the disk."""

BUSY_MS = 250
"""Of a turn while others wait: what a person notices when they answer, with a few before them."""


class Turns:
    """Gives turns to who wants to compute."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._computing: set[Hashable] = set()
        self._waiting: dict[Hashable, None] = {}

    def wants(self, who: Hashable) -> list[tuple[Hashable, int]]:
        """It would compute; return whose turn it is now, and for how many milliseconds at most (0: no bound)."""
        self._waiting[who] = None
        return self._next()

    def gives(self, who: Hashable) -> list[tuple[Hashable, int]]:
        """It computes no more, or does not want to, or is gone; return whose turn it is now."""
        self._waiting.pop(who, None)
        self._computing.discard(who)
        return self._next()

    def _next(self) -> list[tuple[Hashable, int]]:
        found = []
        while self._waiting and len(self._computing) < self._at_once:
            who = next(iter(self._waiting))
            del self._waiting[who]
            self._computing.add(who)
            found.append((who, BUSY_MS if self._crowded else 0))
        return found

    @property
    def _crowded(self) -> bool:
        """Whether somebody waits, or soon would: the next one that comes."""
        return bool(self._waiting) or len(self._computing) >= self._at_once
