"""How fast one peer is listened to: some things at once, then so many a second, and after a rest some at once again."""

from __future__ import annotations

import asyncio
from unittest import mock

from hhd.node.relay.pace import Pace


def test_some_turns_are_had_at_once_and_the_rest_in_their_time() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def go() -> None:
        loop, now = asyncio.get_running_loop(), [100.0]
        with mock.patch.object(loop, "time", lambda: now[0]), mock.patch.object(asyncio, "sleep", sleep):
            pace = Pace(10, 3)
            for _ in range(3):
                await pace.turn()
            assert waited == []
            for _ in range(2):
                await pace.turn()
            assert [round(one, 6) for one in waited] == [0.1, 0.2]
            now[0] += 60
            waited.clear()
            for _ in range(3):
                await pace.turn()
            assert waited == []
            await pace.turn()
            assert len(waited) == 1

    asyncio.run(go())
