"""Links over TCP and TLS 1.3 do what every link does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contracts.links import INSTANCE, Device, LinkContract, Trust
from tests.transports.devices import certificate_of, device_named

from hhd.identity.certificates import peer_device
from hhd.transports.stream import Own, Pace
from hhd.transports.tcp import TcpTransport


class Localhost:
    """Devices that listen on this machine's own address."""

    def __init__(self) -> None:
        self.devices: list[Device] = []

    def device(self, name: str, pace: Pace | None = None, *, instance: bytes = INSTANCE) -> Device:
        own = Own(instance=instance, hhd="0.1", pace=pace or Pace())
        id, trust = device_named(name).id, Trust()
        transport = TcpTransport(
            id, certificate_of(name), peer_device, own, trusted=trust.trusted, pairing_open=trust.pairing_open,
            hosts=("127.0.0.1",), port=0,
        )  # fmt: skip
        self.devices.append(Device(id, transport, trust))
        return self.devices[-1]

    def silence(self) -> None:
        """As when a cable is pulled: what is sent goes nowhere, and nothing comes."""
        loop = asyncio.get_running_loop()
        for device in self.devices:
            for link in device.transport.links:
                loop.remove_reader(link._wire._socket)
                link._wire.write = len


class TestTcp(LinkContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[Localhost]:
        world = Localhost()
        try:
            yield world
        finally:
            for one in world.devices:
                if one.listener is not None:
                    await one.listener.close()
                for link in list(one.transport.links):
                    link.cut("the test is over")
