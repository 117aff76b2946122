"""Links in memory, between devices of one process: for tests and simulations of what is wired to links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hhd.base.errors import RefusedError
from hhd.transports.link import Accept, LinkError, PairingOpen, Trusted, Why
from hhd.transports.stream import Ends, Own, StreamLink, slept_clock
from hhd_protocol.ids import DeviceId

PIPE_BYTES = 256 * 1024
"""What is on its way in one direction: as much as a system's socket holds."""


@dataclass(kw_only=True)
class Network:
    """Joins the loopback transports that are given it; between the hosts of a pair in `apart` nothing gets through."""

    listeners: dict[tuple[str, int], LoopbackListener] = field(default_factory=dict)
    apart: set[frozenset[str]] = field(default_factory=set)
    pipes: list[_Pipe] = field(default_factory=list)

    def reaches(self, host: str, other: str) -> bool:
        """Whether bytes get from one host to the other now."""
        return frozenset((host, other)) not in self.apart

    def part(self, host: str, other: str) -> None:
        """Let nothing through any more, without a word to either side."""
        self.apart.add(frozenset((host, other)))

    def join(self, host: str, other: str) -> None:
        """Let things through again, also what waited."""
        self.apart.discard(frozenset((host, other)))
        for pipe in list(self.pipes):
            pipe.deliver_soon()

    def next_port(self) -> int:
        """A port that is free everywhere."""
        return 1 + max((port for _, port in self.listeners), default=0)


class LoopbackTransport:
    """Makes links of the device `me`, whose address on `network` is `host`; see `hhd.transports.link.Transport`."""

    def __init__(
        self,
        network: Network,
        host: str,
        me: DeviceId,
        own: Own,
        *,
        trusted: Trusted,
        pairing_open: PairingOpen = lambda: False,
        clock: Callable[[], float] = slept_clock,
    ) -> None:
        self._network, self.host, self.me, self._own = network, host, me, own
        self._trusted, self._pairing_open, self._clock = trusted, pairing_open, clock
        self._dials = 0
        self._links: set[StreamLink] = set()

    async def listen(self, accept: Accept, *, port: int = 0) -> LoopbackListener:
        """See `Transport.listen`."""
        port = port or self._network.next_port()
        if (self.host, port) in self._network.listeners:
            raise RefusedError(f"Port {port} of {self.host} is taken; nothing was changed.")
        listener = LoopbackListener(self._network, self, (self.host, port), accept)
        self._network.listeners[self.host, port] = listener
        return listener

    async def dial(self, host: str, port: int, peer: DeviceId | None) -> StreamLink:
        """See `Transport.dial`."""
        self._dials += 1
        listener = self._network.listeners.get((host, port))
        if listener is None or not self._network.reaches(self.host, host):
            raise LinkError(Why.UNREACHABLE, f"Nobody answers at {host}:{port}.")
        other = listener.transport
        if other.me == self.me:
            raise LinkError(Why.STRANGER, f"At {host}:{port} is this device itself.")
        if peer is not None and (other.me != peer or not self._trusted(peer)):
            raise LinkError(Why.STRANGER, f"At {host}:{port} is another device than the one that was dialled.")
        if not other._trusted(self.me) and not other._pairing_open():
            raise LinkError(Why.REFUSED, "The other device does not know this one.")
        there, here = _Pipe(self._network, (self.host, host)), _Pipe(self._network, (host, self.host))
        mine = self._link(_End(f"{host}:{port}", there, here), other.me, dials=self._dials)
        theirs = other._link(_End(f"{self.host}:0", here, there), self.me, dials=0)
        there.reader, there.writer, here.reader, here.writer = theirs, mine, mine, theirs
        listener.arrived(theirs)
        await mine.greeted()
        return mine

    def recheck(self) -> None:
        """Cut each link of a device that is trusted no more, and of strangers once no code is open."""
        for link in list(self._links):
            if not (self._trusted(link.peer) if link.trusted else self._pairing_open()):
                link.cut("the device is no member any more")

    def _link(self, end: _End, peer: DeviceId, *, dials: int) -> StreamLink:
        ends = Ends(me=self.me, peer=peer, dialled=dials > 0, trusted=self._trusted(peer))
        link = StreamLink(end, ends, self._own, dials=dials, clock=self._clock)
        self._links.add(link)
        link.when_over(lambda: self._links.discard(link))
        return link


class LoopbackListener:
    """See `hhd.transports.link.Listener`."""

    def __init__(
        self, network: Network, transport: LoopbackTransport, address: tuple[str, int], accept: Accept
    ) -> None:
        self._network, self.transport, self.addresses, self._accept = network, transport, (address,), accept
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[StreamLink] = set()

    def arrived(self, link: StreamLink) -> None:
        """Give a link that came in to who accepts."""
        task = asyncio.get_running_loop().create_task(self._serve(link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: StreamLink) -> None:
        try:
            await link.greeted()
            await self._accept(link)
        except LinkError:
            pass
        finally:
            await link.close()

    async def close(self) -> None:
        """See `Listener.close`."""
        for address in self.addresses:
            self._network.listeners.pop(address, None)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class _Pipe:
    """Bytes on their way from a writer to a reader."""

    def __init__(self, network: Network, hosts: tuple[str, str]) -> None:
        self._network, self._hosts = network, hosts
        self.reader: StreamLink
        self.writer: StreamLink
        self._held = bytearray()
        self._full = self._soon = self._finished = self.broken = False
        network.pipes.append(self)

    def write(self, raw: memoryview) -> int:
        taken = min(len(raw), PIPE_BYTES - len(self._held))
        self._held += raw[:taken]
        self._full = taken < len(raw)
        self.deliver_soon()
        return taken

    def finish(self) -> None:
        """Nothing more is written."""
        self._finished = True
        self.deliver_soon()

    def drop(self) -> None:
        """Nothing is on its way any more, nor will be."""
        self.broken = True
        self._held.clear()
        if self in self._network.pipes:
            self._network.pipes.remove(self)

    def deliver_soon(self) -> None:
        if not self._soon and not self.broken:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._soon = False
        if self.broken or not self._network.reaches(*self._hosts):
            return
        while self._held and not self.broken:
            room = self.reader.room()
            count = min(len(room), len(self._held))
            room[:count] = self._held[:count]
            del self._held[:count]
            self.reader.received(count)
        if self.broken:
            return
        if self._finished:
            self.drop()
            self.reader.broke(LinkError(Why.LOST, "The connection was closed."))
        elif self._full:
            self._full = False
            self.writer.has_room()


class _End:
    """One side of two pipes, as a `Wire`."""

    def __init__(self, remote: str, out: _Pipe, into: _Pipe) -> None:
        self.remote, self._out, self._into = remote, out, into

    def write(self, raw: memoryview) -> int:
        return len(raw) if self._out.broken else self._out.write(raw)

    def finish(self) -> None:
        self._into.drop()
        self._out.finish()

    def abort(self) -> None:
        self._into.drop()
        self._out._held.clear()
        self._out.finish()
