"""How much work one peer may ask for: many words at once, and then so many a second."""

from __future__ import annotations

from hhd_protocol.limits import SYNC_WORDS_A_SECOND, SYNC_WORDS_MAX
from hhd_protocol.sync.messages import (
    Acknowledge,
    Ask,
    Bare,
    Begin,
    Entries,
    Hello,
    Message,
    Part,
    Rebuild,
    Statements,
    Want,
)

_FREE = (Part, Rebuild)
"""They were asked for, and are bounded by that."""
_DEAR: dict[type[object], float] = {
    Hello: 20,
    Entries: 20,
    Ask: 2,
    Begin: 2,
    Want: 2,
    Statements: 1,
    Acknowledge: 1,
    Bare: 0.1,  # Two thousand may go before each hello, and nothing is read for one.
}


class Budget:
    """The words that one peer has left on one link."""

    def __init__(self) -> None:
        self._left = float(SYNC_WORDS_MAX)
        self._at_ms: int | None = None

    def spend(self, message: Message, now_ms: int) -> str | None:
        """Take a message into account; return why the link ends, None if it does not."""
        if isinstance(message, _FREE):
            return None
        if self._at_ms is not None:
            earned = max(0, now_ms - self._at_ms) * SYNC_WORDS_A_SECOND / 1000
            self._left = min(float(SYNC_WORDS_MAX), self._left + earned)
        self._at_ms = now_ms
        self._left -= _DEAR.get(type(message), 1)
        return "it asks and tells without end" if self._left < 0 else None
