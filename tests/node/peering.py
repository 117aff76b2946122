"""Devices with peers in memory: a group of names, links of the loopback transport, address books that are kept."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.transports.devices import device_named

from hhd.node.address_book import AddressBook
from hhd.node.dialling import Place
from hhd.node.listening import Settings
from hhd.node.members import Member
from hhd.node.peers import Peers
from hhd.node.roll import Roll, Standing
from hhd.transports.link import Channel, Link
from hhd.transports.loopback import LoopbackTransport, Network
from hhd.transports.stream import Own
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId
from hhd_protocol.statements import Role

NAMES = ("laptop", "desktop", "phone", "stranger")
SECONDS = 240.0
"""After which a test gives up."""


def ident(name: str) -> DeviceId:
    return device_named(name).id


@dataclass
class Circle:
    """A group whose records are words: `add laptop`, `revoke phone`, `lower phone`: only stores, till `raise phone`."""

    kept: list[bytes] = field(default_factory=list)
    taken: int = 0

    def read(self) -> Standing:
        words = [raw.decode().split() for raw in sorted(self.kept, key=lambda raw: not raw.startswith(b"add"))]
        names = dict.fromkeys(name for act, name in words if act == "add")
        for act, name in words:
            if act == "revoke":
                names.pop(name, None)
        lowered = {name for act, name in words if act == "lower"} - {name for act, name in words if act == "raise"}
        members = {
            ident(name): Member(
                role=Role.FULL,
                public=device_named(name).public,
                name=name,
                lowered=Role.STORE_ONLY if name in lowered else None,
            )
            for name in names
        }
        return Standing(members, tuple(self.kept))

    def take(self, records: Sequence[bytes]) -> Standing:
        self.taken += len(records)
        for raw in records:
            if raw.split(b" ")[0] not in (b"add", b"lower", b"raise", b"revoke"):
                raise FormatError("this is no record of the group")
        self.kept += [raw for raw in records if raw not in self.kept]
        return self.read()


@dataclass
class Shelf:
    """Where an address book is kept."""

    book: AddressBook = field(default_factory=AddressBook)
    written: int = 0

    def read(self) -> AddressBook:
        return self.book

    def write(self, book: AddressBook) -> None:
        self.book, self.written = book, self.written + 1

    def names(self) -> Mapping[DeviceId, str]:
        return {}


class House:
    """Devices on one network, each with a daemon's worth of peers."""

    def __init__(self) -> None:
        self.network = Network()
        self.devices: dict[str, House.Device] = {}
        self.starts = itertools.count()

    class Device:
        """A device: `said`: what happened to its links, in order."""

        def __init__(self, house: House, name: str, circle: Circle, shelf: Shelf) -> None:
            self.house, self.name, self.circle, self.shelf = house, name, circle, shelf
            self.roll = Roll(device_named(name), circle)
            self.said: list[str] = []
            self.links: list[Link] = []
            self.peers = Peers(
                roll=self.roll,
                books=shelf,
                transport=self.transport,
                random=lambda count: bytes(count),
                chance=random.Random(1).random,
                now_ms=lambda: 1_000,
                settings=lambda: Settings(multicast=False),
            )
            self.peers.on_linked(self.attend)
            self.peers.on_lost(lambda device: self.said.append(f"lost {named(device)}"))
            self.running: asyncio.Task[None] | None = None

        def transport(self) -> LoopbackTransport:
            instance = f"{self.name} {next(self.house.starts)}".encode().ljust(16, b".")
            return LoopbackTransport(
                self.house.network,
                self.name,
                ident(self.name),
                Own(instance=instance, hhd="0.1"),
                trusted=self.roll.trusted,
                pairing_open=lambda: self.peers.pairing_open(),
            )

        async def attend(self, link: Link) -> None:
            self.said.append(f"linked {named(link.peer)}")
            self.links.append(link)
            await link.ended()

        def start(self) -> None:
            self.running = asyncio.get_running_loop().create_task(self.peers.run())

        @property
        def port(self) -> int:
            return next(port for host, port in self.house.network.listeners if host == self.name)

        def hears(self, *others: str, nonce: bytes = b"12345678") -> None:
            """As if they had announced themselves."""
            for name in others:
                self.peers._heard(ident(name), nonce, [Place(name, self.house.devices[name].port)])

        async def until(self, came: Callable[[], bool]) -> None:
            async with asyncio.timeout(SECONDS):
                while not came():
                    if self.running is not None and self.running.done():
                        self.running.result()
                    await asyncio.sleep(0.005)

        async def linked(self, *names: str) -> None:
            await self.until(lambda: self.peers.connected() == {ident(name) for name in names})

        async def listens(self) -> None:
            await self.until(lambda: any(host == self.name for host, _ in self.house.network.listeners))

        async def end(self, *, orderly: bool = True) -> None:
            if orderly:
                await self.peers.stop()
            if self.running is not None:
                self.running.cancel()
                await asyncio.wait([self.running])

    def device(self, name: str, records: Iterable[str], shelf: Shelf | None = None) -> Device:
        """Make a device whose group has these records, and start it."""
        one = House.Device(self, name, Circle([record.encode() for record in records]), shelf or Shelf())
        self.devices[name] = one
        one.start()
        return one

    async def end(self) -> None:
        for one in self.devices.values():
            await one.end()


def named(device: DeviceId) -> str:
    return next(name for name in NAMES if ident(name) == device)


def run(test: Callable[[House], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a house of its own."""

    async def main() -> None:
        house = House()
        try:
            async with asyncio.timeout(2 * SECONDS):
                await test(house)
        finally:
            await house.end()

    asyncio.run(main())


async def echo(channel: Channel, link: Link) -> None:
    """Serves a channel: says everything back."""
    while (message := await channel.receive()) is not None:
        await channel.send(message)
