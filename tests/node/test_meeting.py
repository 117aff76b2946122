"""Where the device that shows a code is looked for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hhd.base.errors import RefusedError
from hhd.node.meeting import Meeting
from hhd.transports.link import LinkError, Why


class Peers(SimpleNamespace):
    """Links of a device that listens at port 4711, where nobody answers."""

    dialled: list[Any]

    async def listening(self) -> int:
        return 4711

    async def dial_stranger(self, place: Any) -> Any:
        self.dialled.append(place)
        raise LinkError(Why.UNREACHABLE, "Nobody answers.")


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1:4711", True), ("localhost:4711", True), ("127.0.0.1:4712", False), ("192.0.2.1:4711", False)],
)
def test_the_address_of_this_device_itself_is_not_dialled(host: str, here: bool) -> None:
    async def go() -> None:
        peers: Any = Peers(dialled=[], serve=lambda *_: None, pairing_wanted=lambda _: None, connected=frozenset)
        pairing: Any = SimpleNamespace(is_open=False)

        async def name() -> str:
            return "laptop"

        with pytest.raises(RefusedError) as told:
            async for _ in Meeting(peers=peers, pairing=pairing, name=name)._with("1234-5671", host):
                pass
        assert ("is this device itself" in str(told.value), peers.dialled == []) == (here, here)

    asyncio.run(go())
