"""When a running session is checkpointed: at every effect border and pause, in a busy loop once a second at most."""

from __future__ import annotations

BUSY_SECONDS = 1.0
"""What a crash of a busy guest may lose; a checkpoint costs a millisecond or two."""


class Pace:
    """Decides at each stop of one guest; `now` is any clock that only goes forward."""

    def __init__(self) -> None:
        self._last: float | None = None

    def due(self, now: float, *, border: bool) -> bool:
        """Say whether this stop is checkpointed; `border`: an effect was asked or answered, or the guest is paused."""
        if border or self._last is None or now - self._last >= BUSY_SECONDS:
            self._last = now
            return True
        return False
