"""Links in memory do what every link does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.contracts.links import INSTANCE, Device, LinkContract, Trust
from tests.transports.devices import device_named

from hhd.transports.loopback import LoopbackTransport, Network
from hhd.transports.stream import Own, Pace


class Memory:
    """Devices that are hosts of one network in memory."""

    def __init__(self) -> None:
        self.network = Network()
        self.devices: list[Device] = []

    def device(self, name: str, pace: Pace | None = None, *, instance: bytes = INSTANCE) -> Device:
        own = Own(instance=instance, hhd="0.1", pace=pace or Pace())
        id, trust = device_named(name).id, Trust()
        transport = LoopbackTransport(
            self.network, name, id, own, trusted=trust.trusted, pairing_open=trust.pairing_open
        )
        self.devices.append(Device(id, transport, trust))
        return self.devices[-1]

    def silence(self) -> None:
        hosts = [one.transport.host for one in self.devices]
        for host in hosts:
            for other in hosts:
                self.network.part(host, other)


class TestLoopback(LinkContract):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[Memory]:
        world = Memory()
        try:
            yield world
        finally:
            for one in world.devices:
                if one.listener is not None:
                    await one.listener.close()
