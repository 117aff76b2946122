"""Notices that this device slept, or that the daemon stood still: what was connected before may not be any more.

Linux counts the time of a sleep in CLOCK_BOOTTIME and not in CLOCK_MONOTONIC, macOS in CLOCK_MONOTONIC and not in
CLOCK_UPTIME_RAW; the difference of the two grows by each sleep, whatever becomes of the date. A machine that was
stopped altogether (a paused virtual one, SIGSTOP) shows by a pause that came out far too long.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 0.5
"""A device that wakes is to be linked again within 1.5 s; looking costs some 30 microseconds."""
ASLEEP_SECONDS = 1.0
"""A shorter sleep than this breaks nothing."""
STOOD_SECONDS = 10.0
"""A loop that stood for longer was stopped; shorter, it was only busy."""


class Clocks:
    """Two clocks: `ticking` stands while the device sleeps, `passing` goes on. Seconds."""

    if sys.platform == "darwin":

        def ticking(self) -> float:
            """Seconds that the device was awake."""
            return time.clock_gettime(time.CLOCK_UPTIME_RAW)

        def passing(self) -> float:
            """Seconds, sleep and all."""
            return time.clock_gettime(time.CLOCK_MONOTONIC)

    else:

        def ticking(self) -> float:
            """Seconds that the device was awake."""
            return time.clock_gettime(time.CLOCK_MONOTONIC)

        def passing(self) -> float:
            """Seconds, sleep and all."""
            return time.clock_gettime(time.CLOCK_BOOTTIME)


class Sleeper:
    """Tells apart sleep from time that went by, from looks at two clocks."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._ticked, self._passed = clocks.ticking(), clocks.passing()

    def slept(self) -> float:
        """Return how many seconds the device slept or stood since the last look, 0 if it did not."""
        ticked, passed = self._clocks.ticking(), self._clocks.passing()
        awake, whole = ticked - self._ticked, passed - self._passed
        self._ticked, self._passed = ticked, passed
        if whole - awake > ASLEEP_SECONDS:
            return whole - awake
        return awake if awake > STOOD_SECONDS else 0.0


async def watch(
    woke: Callable[[float], None],
    clocks: Clocks,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `woke` with the seconds of each sleep, until cancelled."""
    sleeper = Sleeper(clocks)
    while True:
        await pause(LOOK_SECONDS)
        if seconds := sleeper.slept():
            woke(seconds)
