"""Clocks of linked devices, compared when a person asks: a part of the daemon (`spec/peers.md`).

What another device says of its clock is shown and nothing else: no order, and no promise, rests on any clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from hhd.base import log
from hhd.node.answers.clocks import Clock
from hhd.node.service import Verb
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import clock
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

CHANNEL = "clock"
SECONDS_MAX = 3.0
"""For a device to say what time it is."""


class Peering(Protocol):
    """Links to the other members (`hhd.node.peers`)."""

    def connected(self) -> frozenset[DeviceId]:
        """The members with a link in use now."""

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member, None if none is in use."""

    def serve(self, name: str, handler: Callable[[Channel, Link], Awaitable[None]]) -> None:
        """From now on `handler` serves the channels of this name that peers open."""

    async def called(self) -> Mapping[DeviceId, str]:
        """What the other members are called."""


class Clocks:
    """See above. `wall_ms` is this device's clock."""

    def __init__(self, peers: Peering, wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._peers, self._wall_ms = peers, wall_ms
        peers.serve(CHANNEL, self._answer)

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.service.Part`."""
        return {"clocks": Verb(self.clocks, changes=False)}

    async def run(self) -> None:
        """Nothing of its own."""

    async def stop(self) -> None:
        """Nothing is under way that matters."""

    async def clocks(self) -> list[Clock]:
        """Ask all linked devices what time it is."""
        names = await self._peers.called()
        devices = sorted(self._peers.connected())
        ahead = await asyncio.gather(*map(self._ahead, devices))
        return [
            Clock(device=device_text(device), name=names.get(device, ""), ahead_ms=one)
            for device, one in zip(devices, ahead, strict=True)
        ]

    async def _answer(self, channel: Channel, link: Link) -> None:
        raw = await channel.receive()
        if raw is not None:
            clock.insist_on_ask(raw)
            await channel.send(clock.encode_told(self._wall_ms()))

    async def _ahead(self, device: DeviceId) -> int | None:
        link = self._peers.link(device)
        if link is None:
            return None
        try:
            with contextlib.suppress(TimeoutError, LinkError):
                async with asyncio.timeout(SECONDS_MAX):
                    return await self._asked(link)
        except FormatError as fault:
            log.fault("peer_broke_rules", fault, device=device_text(device), address=link.remote)
            link.cut("the rules were broken")
        return None

    async def _asked(self, link: Link) -> int | None:
        channel = await link.open(CHANNEL, urgent=True)
        try:
            asked_ms, began = self._wall_ms(), time.monotonic()
            await channel.send(clock.ASK)
            raw = await channel.receive()
            took_ms = int((time.monotonic() - began) * 1000) + 1
        finally:
            await channel.close()
        return None if raw is None else clock.skew_ms(clock.decode_told(raw), asked_ms, took_ms)
