"""How fast one peer is listened to: so many things a second in the long run, and some at once."""

from __future__ import annotations

import asyncio


class Pace:
    """Gives `per_second` turns in the long run, and `at_once` of them without a wait."""

    def __init__(self, per_second: float, at_once: int) -> None:
        self._step, self._room = 1 / per_second, (at_once - 1) / per_second
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next turn; who asked first has it first."""
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._room) + self._step
        wait = self._next - self._step - now
        if wait > 0:
            await asyncio.sleep(wait)
