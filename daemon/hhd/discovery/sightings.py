"""Which instances of the service were heard, and when each is looked at again: bounded, whatever a network says."""

from __future__ import annotations

from typing import NamedTuple

INSTANCES_MAX = 256
"""Remembered at a time: of more, the one that was looked at longest ago is forgotten."""
CHANGE_SECONDS_MIN = 1.0
"""Between two looks at one instance; what it said in between is looked at when that is over, the last of it only."""

LATE_SECONDS = 3.0
"""After a farewell what comes under that name is late: no name is used again, but an answer made before may come up to
1.2 s after it. Anybody can forge a farewell, so this is not prolonged by saying it again."""


class Heard(NamedTuple):
    """What an instance said last, as it came."""

    properties: dict[bytes, bytes | None]
    port: int
    addresses: tuple[str, ...]


class Sightings:
    """Instances by their labels."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}
        self._waiting: dict[str, Heard] = {}
        self._left: dict[str, float] = {}

    def heard(self, label: str, said: Heard, now: float) -> bool:
        """Take in what `label` said; True if it is to be looked at now, else `due` gives it later, if at all."""
        before = self._looked.get(label)
        if before is not None and now - before < CHANGE_SECONDS_MIN:
            self._waiting[label] = said
            return False
        self._look(label, now)
        return True

    def due(self, now: float) -> list[tuple[str, Heard]]:
        """Return what is to be looked at now."""
        found = [label for label in self._waiting if now - self._looked[label] >= CHANGE_SECONDS_MIN]
        taken = [(label, self._waiting[label]) for label in found]
        for label in found:
            self._look(label, now)
        return taken

    def deadline(self) -> float | None:
        """Return when something is due next; None: nothing waits."""
        return min((self._looked[label] + CHANGE_SECONDS_MIN for label in self._waiting), default=None)

    def gone(self, label: str, now: float) -> None:
        """It said that it is gone; when it was looked at last stays known, so that coming and going changes nothing.

        Of a name that was not looked at since it said so last, that means nothing.
        """
        self._waiting.pop(label, None)
        if self._looked.get(label, float("-inf")) < self._left.get(label, float("-inf")) + LATE_SECONDS:
            return
        self._left.pop(label, None)
        self._left[label] = now
        if len(self._left) > INSTANCES_MAX:
            del self._left[next(iter(self._left))]

    def is_late(self, label: str, now: float) -> bool:
        """Whether what `label` says now may have been said before its farewell."""
        return now - self._left.get(label, float("-inf")) < LATE_SECONDS

    def _look(self, label: str, now: float) -> None:
        self._looked.pop(label, None)
        self._waiting.pop(label, None)
        self._looked[label] = now
        if len(self._looked) > INSTANCES_MAX:
            oldest = next(iter(self._looked))
            del self._looked[oldest]
            self._waiting.pop(oldest, None)

    def __len__(self) -> int:
        return len(self._looked)
