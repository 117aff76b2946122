"""What of the datagrams that a network sends is looked at at all.

Multicast DNS reaches everybody, so a network may say as much as it likes. Most of it is of other services, and is let
go before it is parsed, which is what keeps an idle daemon idle between televisions and printers. What is left has a
size, and a number a second, that no honest network comes near.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

DATAGRAM_BYTES_MAX = 1500
"""An announcement of 16 addresses and 40 tags has some 1,000 bytes, and zeroconf splits what does not fit a frame."""
DATAGRAMS_SECOND_MAX = 100
"""Looked at on all interfaces: one per cent of a core. Sixteen devices that start at once say some 300 in a second."""
DATAGRAMS_BURST_MAX = 500
OURS = b"hhd"
"""Stands in every datagram about this service: in its name, and in that of each host."""


class Sieve:
    """Lets through what is about this service, up to a number a second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left, self._at = float(DATAGRAMS_BURST_MAX), clock()
        self.passed = self.dropped = 0

    def passes(self, datagram: bytes) -> bool:
        """Say whether to look at `datagram`."""
        if OURS not in datagram or len(datagram) > DATAGRAM_BYTES_MAX:
            return False
        now = self._clock()
        self._left = min(DATAGRAMS_BURST_MAX, self._left + (now - self._at) * DATAGRAMS_SECOND_MAX)
        self._at = now
        if self._left < 1:
            self.dropped += 1
            return False
        self._left -= 1
        self.passed += 1
        return True


class Sieved(asyncio.DatagramProtocol):
    """Stands before a protocol, and hands on what passes."""

    def __init__(self, sieve: Sieve, behind: Any) -> None:
        self._sieve, self.behind = sieve, behind

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """As the protocol behind."""
        if self._sieve.passes(data):
            self.behind.datagram_received(data, addr)

    def error_received(self, exc: Exception) -> None:
        """A network that cannot be reached, a firewall: the next interface may."""

    def connection_lost(self, exc: Exception | None) -> None:
        """As the protocol behind."""
        self.behind.connection_lost(exc)
