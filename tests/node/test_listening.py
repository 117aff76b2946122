"""Where a device listens follows what the person set, while others are linked; what cannot be had changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hhd.base.errors import RefusedError
from hhd.node.listening import Listening, Settings
from hhd.transports.link import Accept, Link, Transport

SECONDS = 240.0
"""After which a test gives up."""
FREE = 40_000
"""The port that is free, where any will do."""


@dataclass
class Ear:
    """A port that is listened on."""

    net: Net
    at: int

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        return (("::", self.at), ("0.0.0.0", self.at))

    async def close(self) -> None:
        self.net.said.append(f"closed {self.at}")
        self.net.open.remove(self.at)


@dataclass
class Net:
    """Ports, some of them taken by other programs, and what is announced; `said`: all of it, in order."""

    chosen: Settings = field(default_factory=Settings)
    taken: set[int] = field(default_factory=set)
    open: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listening = Listening(
            settings=lambda: self.chosen,
            transport=lambda: cast(Transport, self),
            accept=self.accept,
            announces=self,
            ending=lambda: self.said.append("ending"),
        )

    async def accept(self, link: Link) -> None: ...

    async def listen(self, accept: Accept) -> Ear:
        port = FREE if self.chosen.port is None else self.chosen.port
        if port in self.taken or port in self.open:
            raise RefusedError(f"Port {port} is taken.")
        self.said.append(f"opened {port}")
        self.open.append(port)
        return Ear(self, port)

    async def run(self, port: int, *, multicast: bool) -> None:
        self.said.append(f"announces {port}" if multicast else f"keeps {port} to itself")
        await asyncio.get_running_loop().create_future()

    def set(self, **chosen: Any) -> None:
        self.chosen = replace(self.chosen, **chosen)
        self.listening.settings_changed()

    async def says(self, last: str) -> None:
        """Wait until this was said last."""
        async with asyncio.timeout(SECONDS):
            while not self.said or self.said[-1] != last:
                await asyncio.sleep(0)


def run(test: Callable[[Net], Coroutine[Any, Any, None]], **chosen: Any) -> Net:
    async def main() -> Net:
        net = Net(**chosen)
        living = asyncio.create_task(net.listening.run())
        try:
            await test(net)
        finally:
            living.cancel()
            await asyncio.wait([living])
        assert living.cancelled()
        return net

    return asyncio.run(main())


def test_another_port_is_taken_and_announced_before_the_old_one_is_let_go() -> None:
    async def test(net: Net) -> None:
        await net.says(f"announces {FREE}")
        assert await net.listening.port() == FREE
        net.set(port=50_000)
        await net.says("announces 50000")
        assert await net.listening.port() == 50_000

    net = run(test)
    assert net.said == [
        f"opened {FREE}",
        f"announces {FREE}",
        "opened 50000",
        f"closed {FREE}",
        "announces 50000",
        "ending",
        "closed 50000",
    ]


def test_a_port_that_cannot_be_had_leaves_the_one_there_is_and_says_so_until_it_can() -> None:
    async def test(net: Net) -> None:
        await net.says(f"announces {FREE}")
        net.set(port=50_000)
        await net.says(f"announces {FREE}")
        async with asyncio.timeout(SECONDS):
            while not net.listening.trouble:
                await asyncio.sleep(0)
        assert net.listening.trouble == f"Port 50000 is taken. It still listens on port {FREE}."
        assert net.open == [FREE]
        net.taken.clear()
        net.set(port=50_001)
        await net.says("announces 50001")
        assert net.listening.trouble == "" and net.open == [50_001]

    run(test, taken={50_000})


def test_whether_to_announce_changes_without_a_port_being_let_go() -> None:
    async def test(net: Net) -> None:
        await net.says(f"announces {FREE}")
        net.set(multicast=False)
        await net.says(f"keeps {FREE} to itself")
        net.set(port=FREE)  # It is there already.
        async with asyncio.timeout(SECONDS):
            while len(net.said) < 4:
                await asyncio.sleep(0)
        assert net.said == [f"opened {FREE}", f"announces {FREE}", *2 * [f"keeps {FREE} to itself"]]
        assert net.open == [FREE]

    run(test)


def test_settings_that_are_the_same_change_nothing() -> None:
    async def test(net: Net) -> None:
        await net.says(f"announces {FREE}")
        net.set(port=None)
        net.set(multicast=False)  # What is done once that was looked at.
        await net.says(f"keeps {FREE} to itself")
        assert net.said == [f"opened {FREE}", f"announces {FREE}", f"keeps {FREE} to itself"]

    run(test)


def test_where_nothing_can_be_listened_on_others_hear_of_no_port() -> None:
    async def test(net: Net) -> None:
        await net.says("announces 0")
        assert await net.listening.port() == 0 and net.listening.trouble == f"Port {FREE} is taken."
        assert net.listening.addresses == ()

    assert run(test, taken={FREE}).said[-1] == "ending"
