"""Links over TCP with TLS 1.3, both sides known by their keys (`spec/link.md`).

Both the device that is dialled and the one that dials are judged within the handshake, so a stranger learns nothing
but that somebody is there. Who comes in without having proven who it is has a bounded place for a bounded time; where
places are short, the network that takes most of them gives one up, and there who has said nothing first.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import errno
import functools
import os
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass

from hhd.transports import sockets
from hhd.transports.link import Accept, LinkError, PairingOpen, Trusted, Why
from hhd.transports.stream import Ends, Own, StreamLink, slept_clock
from hhd.transports.tls import Certificate, Tls, Wants
from hhd.transports.tls_wire import Proven, TlsWire, hang_up, ready
from hhd_protocol.ids import DeviceId

DeviceOf = Callable[[bytes], DeviceId | None]
"""The device that a certificate (DER) is of, None if it is of none."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What connections may take up together (`spec/link.md`, Bounds)."""

    pending: int = 64
    """Connections whose other end has not proven who it is."""

    handshake_seconds: float = 5
    """For the handshake: it takes two round trips."""

    connect_seconds: float = 5
    """For one address to take a connection."""

    links: int = 64
    """That came in: a person has a handful of devices."""

    links_of_one: int = 4
    """That came in from one device: more than two are old ones whose end is not known yet. The oldest goes."""

    strangers: int = 4
    """Links that came in from devices that are not trusted, while a code is open."""

    linger_seconds: float = 1
    """For the other side to read the end of what was sent."""


class TcpTransport:
    """Makes links of the device `me` over TCP; see `hhd.transports.link.Transport`."""

    def __init__(
        self,
        me: DeviceId,
        certificate: Certificate,
        device_of: DeviceOf,
        own: Own,
        *,
        hosts: tuple[str, ...] = ("::", "0.0.0.0"),
        port: int | Callable[[], int | None] | None = None,
        trusted: Trusted,
        pairing_open: PairingOpen = lambda: False,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = slept_clock,
        refused: Callable[[str, LinkError], None] = lambda address, error: None,
    ) -> None:
        """`port`: to listen on, asked each time if it can be called; None for the default or, if taken, any; 0 for any.

        `refused` is told of each connection that came in and got no link, with the address, for the log."""
        self.me, self.own, self.bounds, self.refused = me, own, bounds or Bounds(), refused
        self.trusted, self.pairing_open = trusted, pairing_open
        self._hosts, self._port = hosts, port
        self._tls, self._device_of, self._clock = Tls(certificate), device_of, clock
        self._dials = 0
        self.links: dict[StreamLink, None] = {}
        """All living ones, in the order in which they were made."""

    async def listen(self, accept: Accept) -> TcpListener:
        """See `Transport.listen`."""
        port = self._port() if callable(self._port) else self._port
        return TcpListener(self, accept, sockets.listening(self._hosts, port))

    async def dial(self, host: str, port: int, peer: DeviceId | None) -> StreamLink:
        """See `Transport.dial`; tries each address that `host` has."""
        self._dials += 1
        dials = self._dials
        try:
            infos = await sockets.found(host, port)
        except (OSError, UnicodeError) as error:
            raise LinkError(Why.UNREACHABLE, f"{host} is no address that is known here.") from error
        failure = LinkError(Why.UNREACHABLE, f"{host} has no address.")
        for family, kind, proto, _, address in infos:
            try:
                own = socket.socket(family, kind, proto)
            except OSError as error:
                failure = LinkError(Why.UNREACHABLE, f"{sockets.shown(address)} cannot be reached: {error.strerror}.")
                continue
            remote = sockets.shown(address)
            try:
                proven = await self._connected(own, address, remote, peer)
            except LinkError as error:
                own.close()
                failure = error
                continue
            except BaseException:
                own.close()
                raise
            try:
                return await self.linked(proven, dials=dials)
            except LinkError as error:
                failure = error
        raise failure

    def recheck(self) -> None:
        """Cut each link of a device that is trusted no more, and of strangers once no code is open."""
        for link in list(self.links):
            if not (self.trusted(link.peer) if link.trusted else self.pairing_open()):
                link.cut("the device is no member any more" if link.trusted else "the code is used up")

    async def secured(self, own: socket.socket, remote: str, *, dialled: bool, wanted: DeviceId | None) -> Proven:
        """Do the handshake and return who is there. Raises LinkError."""
        found: list[DeviceId] = []

        def approve(der: bytes) -> bool:
            device = self._device_of(der)
            if device is None or device == self.me:
                return False
            found[:] = [device]
            if dialled:
                return wanted is None or (device == wanted and self.trusted(device))
            return self.trusted(device) or self.pairing_open()

        connection = self._tls.connection(own, dialled=dialled, approve=approve)
        try:
            async with asyncio.timeout(self.bounds.handshake_seconds):
                while (wants := connection.handshake()) is not None:
                    await ready(own, wants)
        except TimeoutError:
            raise LinkError(Why.LOST, "The other end did not finish its handshake in time.") from None
        return Proven(own=own, connection=connection, peer=found[0], remote=remote)

    async def linked(self, proven: Proven, *, dials: int) -> StreamLink:
        """Make a link, which has the socket from now on; `dials`: 0 if it came in. Raises LinkError."""
        carrier = TlsWire(proven, self.bounds.linger_seconds)
        ends = Ends(me=self.me, peer=proven.peer, dialled=dials > 0, trusted=self.trusted(proven.peer))
        link = StreamLink(carrier, ends, self.own, dials=dials, clock=self._clock)
        carrier.attach(link)
        self.links[link] = None
        link.when_over(lambda: self.links.pop(link, None))
        try:
            await link.greeted()
        except BaseException:
            link.cut("it was given up")
            raise
        if link.trusted and not self.trusted(link.peer):
            link.cut("the device is no member any more")
            raise LinkError(Why.STRANGER, "The device is no member any more.")
        return link

    async def _connected(
        self, own: socket.socket, address: tuple[object, ...], remote: str, peer: DeviceId | None
    ) -> Proven:
        """Connect and do the handshake; raises LinkError."""
        try:
            sockets.set_up(own)
            async with asyncio.timeout(self.bounds.connect_seconds):
                await asyncio.get_running_loop().sock_connect(own, address)
        except TimeoutError:
            raise LinkError(Why.UNREACHABLE, f"Nobody answers at {remote}.") from None
        except OSError as error:
            said = (
                error.strerror if error.errno is None else os.strerror(error.errno)
            )  # asyncio puts its own words there.
            raise LinkError(Why.UNREACHABLE, f"{remote} cannot be reached: {said}.") from error
        try:
            return await self.secured(own, remote, dialled=True, wanted=peer)
        except LinkError as error:
            if error.why is Why.STRANGER:
                raise LinkError(Why.STRANGER, f"At {remote} is another device than the one that was dialled.") from None
            raise


class TcpListener:
    """Takes connections and makes links of them; see `hhd.transports.link.Listener`."""

    def __init__(self, transport: TcpTransport, accept: Accept, listening: list[socket.socket]) -> None:
        self._transport, self._accept, self._sockets = transport, accept, listening
        self._pending: dict[asyncio.Task[None], _Pending] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._came_in: dict[StreamLink, None] = {}
        self.addresses = tuple((one.getsockname()[0], one.getsockname()[1]) for one in listening)
        self._loop = asyncio.get_running_loop()
        for one in listening:
            self._loop.add_reader(one, self._take, one)

    @property
    def port(self) -> int:
        """The port, the same for all addresses."""
        port: int = self.addresses[0][1]
        return port

    @property
    def pending(self) -> int:
        """How many connections are there whose other end has not proven who it is."""
        return len(self._pending)

    async def close(self) -> None:
        """See `Listener.close`."""
        for one in self._sockets:
            if one.fileno() >= 0:
                self._loop.remove_reader(one)
                one.close()
        tasks = [*self._pending, *self._serving]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _take(self, listening: socket.socket) -> None:
        for _ in range(sockets.BACKLOG):
            try:
                own, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                if not self._make_room():  # Nothing of ours to give back: let others breathe.
                    self._loop.remove_reader(listening)
                    self._loop.call_later(0.2, self._again, listening)
                return
            while len(self._pending) >= self._transport.bounds.pending and self._make_room():
                pass
            sockets.set_up(own)
            fresh = _Pending(own, address)
            task = self._loop.create_task(self._welcome(fresh))
            self._pending[task] = fresh
            task.add_done_callback(functools.partial(self._done, fresh))

    def _again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._take, listening)

    def _make_room(self) -> bool:
        """Close the pending connection that matters least; False: there is none.

        That is one of the network that has most of them, so that a crowd pushes out itself: one that has said nothing,
        the oldest; else any, so that who is quick gets through also where it comes from where the crowd does.
        """
        if not self._pending:
            return False
        networks = collections.Counter(one.network for one in self._pending.values())
        busiest = networks.most_common(1)[0][0]
        crowd = [(task, one) for task, one in self._pending.items() if one.network == busiest]
        silent = next((task for task, one in crowd if not one.spoke), None)
        gone = silent or random.choice(crowd)[0]
        del self._pending[gone]
        self._serving.add(gone)
        gone.cancel()  # It closes its socket itself, once nothing looks at that any more.
        return True

    def _done(self, fresh: _Pending, task: asyncio.Task[None]) -> None:
        if not fresh.linked:
            fresh.own.close()
        self._pending.pop(task, None)
        self._serving.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "serving a link failed", "exception": error, "task": task})

    async def _welcome(self, fresh: _Pending) -> None:
        """Make a link of a connection, and hand it over for as long as it lasts."""
        transport, own = self._transport, fresh.own
        try:
            await ready(own, Wants.READ, seconds=transport.bounds.handshake_seconds)
            fresh.spoke = True
            proven = await transport.secured(own, fresh.remote, dialled=False, wanted=None)
            fresh.peer, fresh.trusted = proven.peer, self._admit(proven.peer)
        except LinkError as error:
            transport.refused(fresh.remote, error)
            await hang_up(own, transport.bounds.linger_seconds)
            return
        fresh.linked = True
        try:
            link = await transport.linked(proven, dials=0)
        except LinkError as error:
            transport.refused(fresh.remote, error)
            return
        task = asyncio.current_task()
        assert task is not None
        self._pending.pop(task, None)
        self._serving.add(task)
        self._came_in[link] = None
        link.when_over(lambda: self._came_in.pop(link, None))
        try:
            await self._accept(link)
        except LinkError:
            pass  # It ended under who used it; why is known.
        finally:
            if link.error is None:
                with contextlib.suppress(asyncio.CancelledError):
                    await link.close()

    def _admit(self, peer: DeviceId) -> bool:
        """Make sure that there is room for a link of `peer`; return whether it is trusted. Raises LinkError.

        Who has been admitted and not said hello yet has a place like who did.
        """
        bounds = self._transport.bounds
        mute = sum(one.peer == peer for one in self._pending.values())
        if mute >= 2 * bounds.links_of_one:  # It may dial several ways at once.
            raise LinkError(Why.FULL, "The same device has as many links as may be that it said nothing on.")
        of_one = [link for link in self._came_in if link.peer == peer]
        for link in of_one[: len(of_one) + 1 - bounds.links_of_one]:
            link.cut("the same device has newer ones")
        admitted = [one.trusted for one in self._pending.values() if one.trusted is not None]
        admitted += [link.trusted for link in self._came_in]
        trusted = self._transport.trusted(peer)
        if not trusted and admitted.count(False) >= bounds.strangers:
            raise LinkError(Why.FULL, "As many strangers as may be are here already.")
        if len(admitted) >= bounds.links:
            raise LinkError(Why.FULL, "There are as many links as may be.")
        return trusted


class _Pending:
    """A connection whose other end has not proven who it is."""

    def __init__(self, own: socket.socket, address: tuple[object, ...]) -> None:
        self.own, self.remote, self.network = own, sockets.shown(address), sockets.network(address)
        self.spoke = self.linked = False
        self.peer: DeviceId | None = None
        """The device that was admitted, and whether it is trusted; None: none was yet."""
        self.trusted: bool | None = None
