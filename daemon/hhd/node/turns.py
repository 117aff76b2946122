"""Whose turn it is to compute, or to write: some at a time, first come, first served, so that no session starves.

Programs of sessions mostly wait. Where many compute at once, each gets a turn after those that asked before it, and
gives it back after a short while if others wait; so all go on, and the machine still has time for what the person does.

To ask is a word to the daemon and one back, and a session at work asks six times for each tool that it uses. So a turn
is kept while nobody else waits for it: whoever keeps one asks nobody until it is asked for it. It is given to be kept
where a place is left or, of the one turn to write, where the same worker had it last: two that write in turns would
only ask each other for it. One whose session rests gives it back by itself (`hhd.node.own_turns`).

A turn is fairness and no lock. SQLite lets one write at a time whatever is believed here, a turn that is kept holds
nothing of the store, and what the daemon itself writes asks nobody. So nothing is lost where two believe to have the
one turn, and nobody waits for ever: who waited long goes on without one, and one that does not even say that it is at
it, since it is stopped, say, is not waited for.

| a worker that | once                                                  | then it  | and is told |
|---------------|-------------------------------------------------------|----------|-------------|
| has none      | it wants one                                          | waits    |             |
| waits         | it is the first, a place is free                      | has one  | given       |
| waits         | it is the first, a place is free, and it may keep it  | keeps it | given, kept |
| keeps it      | somebody waits                                        | is asked | asked       |
| has one       | somebody waits, at two looks                          | is asked | asked       |
| is asked      | it says that it is at it                              | is at it |             |
| is asked      | somebody waits, at two looks, and it has said nothing | has none |             |
| any of these  | it gives, or is gone                                  | has none |             |
| any of these  | it wants one: it believes that it has none            | waits    |             |

One that is asked gives at once, or says that it is at it and gives after that: its thread that listens does nothing
else for long. One that is at it is waited for as long as it takes: what it holds is the store's own lock, most likely.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto

AT_ONCE = 2 * (os.cpu_count() or 1)
"""Two for each processor: one may wait for the disk."""

BUSY_MS = 250
"""Of a turn while others wait: what a person notices when they answer, with a few before them."""


@dataclass(frozen=True)
class Given:
    """It has a turn: for so many milliseconds at most (0: no bound) each time it uses it, until it is to give it back.

    `kept`: that is when it is asked for it; else once it used it.
    """

    who: Hashable
    busy_ms: int
    kept: bool


@dataclass(frozen=True)
class Asked:
    """It is to give its turn back once it does not use it, or say that it is at it."""

    who: Hashable


@dataclass(frozen=True)
class Taken:
    """It has no turn any more, since it did not answer; it need not be told, only somebody who wonders."""

    who: Hashable


Word = Given | Asked | Taken


class _Is(Enum):
    WITH_IT = auto()
    KEEPING_IT = auto()
    ASKED = auto()
    AT_IT = auto()


@dataclass
class _Had:
    state: _Is
    looked: bool = False
    """Since it is in that state it was looked at, while somebody waited."""


class Turns:
    """Gives turns to who wants to compute, or to write; what it returns is to be told, in that order."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._having: dict[Hashable, _Had] = {}
        self._waiting: dict[Hashable, None] = {}
        self._last: Hashable | None = None

    def wants(self, who: Hashable) -> list[Word]:
        """It would compute, and has no turn."""
        self._having.pop(who, None)
        self._waiting[who] = None
        return self._next()

    def gives(self, who: Hashable) -> list[Word]:
        """It computes no more, or does not want to, or is gone."""
        self._waiting.pop(who, None)
        self._having.pop(who, None)
        return self._next()

    def is_at_it(self, who: Hashable) -> None:
        """It was asked, and gives its turn back once it has used it."""
        if (had := self._having.get(who)) is not None and had.state is _Is.ASKED:
            had.state = _Is.AT_IT

    def look(self) -> list[Word]:
        """Ask those that are late, take the turn from those that do not answer; called from time to time."""
        found: list[Word] = []
        for who, had in list(self._having.items()) if self._waiting else ():
            if had.state in (_Is.WITH_IT, _Is.ASKED) and not had.looked:
                had.looked = True
            elif had.state is _Is.WITH_IT:
                found.append(self._ask(who))
            elif had.state is _Is.ASKED:
                del self._having[who]
                found.append(Taken(who))
        return [*found, *self._next()]

    def _next(self) -> list[Word]:
        found: list[Word] = []
        while self._waiting and len(self._having) < self._at_once:
            who = next(iter(self._waiting))
            del self._waiting[who]
            full = len(self._having) + 1 >= self._at_once
            kept = not full or (self._at_once == 1 and who == self._last)
            self._having[who] = _Had(_Is.KEEPING_IT if kept else _Is.WITH_IT)
            self._last = who
            found.append(Given(who, BUSY_MS if full or self._waiting else 0, kept))
        if self._waiting:
            found += [self._ask(who) for who, had in self._having.items() if had.state is _Is.KEEPING_IT]
        return found

    def _ask(self, who: Hashable) -> Asked:
        self._having[who] = _Had(_Is.ASKED)
        return Asked(who)
