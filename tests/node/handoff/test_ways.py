"""What handing on does beside everything else is begun or let go of whole, whenever the daemon ends."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import cast

import pytest

from hhd.node.handoff.ways import Ways
from hhd.node.lanes import Lanes
from hhd_protocol.ids import DeviceId


@pytest.mark.parametrize("steps", [0, 1])
def test_what_a_daemon_that_ends_never_came_to_is_let_go_of_without_a_word(steps: int) -> None:
    did = list[str]()

    async def thing() -> None:
        did.append("begun")
        await asyncio.Event().wait()

    async def go() -> None:
        lanes = Lanes()
        ways = Ways(
            me=DeviceId(bytes(32)),
            opened=cast(object, None),  # type: ignore[arg-type]
            lanes=lanes,
            peers=cast(object, None),  # type: ignore[arg-type]
            syncing=cast(object, None),  # type: ignore[arg-type]
            workers=cast(object, None),  # type: ignore[arg-type]
        )

        async def live() -> None:
            async with asyncio.TaskGroup() as ways.tasks:
                ways.soon(thing())
                for _ in range(steps):
                    await asyncio.sleep(0)
                raise asyncio.CancelledError  # The daemon ends.

        with pytest.raises(asyncio.CancelledError):
            await live()
        ways.soon(thing())
        lanes.close()

    gc.collect()  # What other tests left is warned of now.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(go())
        gc.collect()
    unawaited = [str(one.message) for one in said if one.category is RuntimeWarning]  # Others are of other tests.
    assert unawaited == [] and did == ["begun"] * steps
