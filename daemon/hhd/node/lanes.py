"""Threads in which the daemon works with the store, one for each kind of work, so that none waits for another kind.

Working with the store blocks, so nothing of it is done by the loop that answers. Each time the store is opened anew,
as a command would: what holds it open all day would stop its repair, and remember what others changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Lane:
    """A thread that does one thing at a time."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"hhd {name}")
        self.at_end: list[Callable[[], None]] = []
        """Called once nothing is done any more."""

    def begin(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Have `act` done once its turn came, after all that was begun before."""
        return asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def do(self, act: Callable[[], T]) -> T:
        """Return what `act` does, once its turn came."""
        return await self.begin(act)

    def close(self) -> None:
        """Wait for what is being done, and do nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        for act in self.at_end:
            act()


class Lanes:
    """The lanes of one daemon: lists, looking at one session, and changing something."""

    def __init__(self) -> None:
        self.lists, self.looking, self.changing = Lane("lists"), Lane("looking"), Lane("changing")

    def close(self) -> None:
        """Wait for what is being done."""
        for lane in (self.lists, self.looking, self.changing):
            lane.close()
