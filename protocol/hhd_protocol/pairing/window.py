"""When a code may be guessed, and by whom: one guess, minutes to live, addresses that failed wait (`pairing.md`).

Both are values: the same facts and the same time give the same answer. The caller keeps them, in memory.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hhd_protocol.limits import (
    PAIRING_ADDRESSES_MAX,
    PAIRING_CODE_MS,
    PAIRING_LOCKED_MS,
    PAIRING_LOCKED_MS_MAX,
)


class Closed(enum.Enum):
    """Why a guess is not taken; all that the guesser hears is that none is."""

    NONE = "no code is open"
    EXPIRED = "the code has expired"
    USED = "the code was used"
    LOCKED = "this address failed before, and waits"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A code that is shown: `until_ms` by a clock that counts sleep; `used`: somebody has guessed, right or wrong."""

    code: str = field(repr=False)
    until_ms: int
    used: bool = False

    @staticmethod
    def open(code: str, now_ms: int) -> Window:
        """Open a code now."""
        return Window(code=code, until_ms=now_ms + PAIRING_CODE_MS)

    def closed(self, now_ms: int) -> Closed | None:
        """Why no guess is taken now, None if one is."""
        if self.used:
            return Closed.USED
        return Closed.EXPIRED if now_ms >= self.until_ms else None

    def taken(self) -> Window:
        """The window after a guess was begun: it is used up before anything is answered."""
        return replace(self, used=True)


@dataclass(frozen=True, kw_only=True)
class Failures:
    """Addresses that failed: how often, and until when they wait; the latest last, at most PAIRING_ADDRESSES_MAX."""

    of: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def locked(self, address: str, now_ms: int) -> Closed | None:
        """Whether `address` (a host, without its port) has to wait."""
        return Closed.LOCKED if now_ms < self.of.get(address, (0, 0))[1] else None

    def failed(self, address: str, now_ms: int) -> Failures:
        """After one more failure from `address`: it waits, twice as long each time."""
        count = self.of.get(address, (0, 0))[0] + 1
        wait_ms = min(PAIRING_LOCKED_MS << min(count - 1, 16), PAIRING_LOCKED_MS_MAX)
        rest = [(one, said) for one, said in self.of.items() if one != address]
        kept = rest[max(0, len(rest) + 1 - PAIRING_ADDRESSES_MAX) :]
        return Failures(of=dict([*kept, (address, (count, now_ms + wait_ms))]))

    def succeeded(self, address: str) -> Failures:
        """After `address` knew the code."""
        return Failures(of={one: said for one, said in self.of.items() if one != address})
