"""An event loop that lives on a host of a lab, and devices with links on it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from tests.contracts.links import Device, Trust
from tests.net.lab import Host
from tests.transports.devices import certificate_of, device_named

from hhd.identity.certificates import peer_device
from hhd.transports.link import Link
from hhd.transports.stream import Own, Pace
from hhd.transports.tcp import Bounds, TcpTransport

T = TypeVar("T")
PORT = 17470


class Loop:
    """A loop in a thread of a host's network; sockets made by what runs on it are of that host."""

    def __init__(self, host: Host) -> None:
        self._ready = threading.Event()
        self._thread = host.start(self._live)
        assert self._ready.wait(240)

    def do(self, work: Coroutine[Any, Any, T], timeout: float = 240) -> T:
        """Run `work` there and return what comes of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def end(self) -> None:
        """End the loop with all that runs on it."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.result(240)

    def _live(self) -> None:
        async def live() -> None:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await self._over.wait()

        asyncio.run(live())


class There:
    """A device of the tests at a host: its transport, its trust, its links, each used on the host's own loop."""

    def __init__(self, host: Host, name: str | None = None, *, pace: Pace | None = None, start: int = 1) -> None:
        self.host, self.name, self.loop, self.trust = host, name or host.name, Loop(host), Trust()
        self.id, self._ended = device_named(self.name).id, False
        own = Own(instance=start.to_bytes(16, "big"), hhd="0.1", pace=pace or Pace())
        self.device = self.loop.do(self._made(own))

    async def _made(self, own: Own) -> Device:
        transport = TcpTransport(
            self.id, certificate_of(self.name), peer_device, own, hosts=("::", "0.0.0.0"), port=PORT,
            bounds=Bounds(connect_seconds=3), trusted=self.trust.trusted, pairing_open=self.trust.pairing_open,
        )  # fmt: skip
        return Device(self.id, transport, self.trust)

    def listen(self) -> None:
        """Take links in; `came` returns them."""
        self.loop.do(self.device.listen())

    def dial(self, host: str, peer: There | None, port: int = PORT) -> Link:
        """Dial a device at an address."""
        return self.loop.do(self.device.transport.dial(host, port, None if peer is None else peer.id))

    def came(self) -> Link:
        """The next link that came in."""
        return self.loop.do(self.device.came.get())

    def end(self) -> None:
        """Close everything and end the loop; twice is harmless."""
        if self._ended:
            return
        self._ended = True

        async def close() -> None:
            if self.device.listener is not None:
                await self.device.listener.close()
            for link in list(self.device.transport.links):
                link.cut("the test is over")

        self.loop.do(close())
        self.loop.end()


@contextlib.contextmanager
def two(laptop: Host, desktop: Host, pace: Pace | None = None) -> Iterator[tuple[There, There]]:
    """A laptop and a desktop that trust each other; both listen."""
    ends = There(laptop, "laptop", pace=pace), There(desktop, "desktop", pace=pace)
    try:
        for one, other in (ends, ends[::-1]):
            one.trust.members.add(other.id)
            one.listen()
        yield ends
    finally:
        for one in ends:
            one.end()
