"""A TLS connection as what carries the bytes of a link, and how its socket is waited for and left."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

from hhd.transports import sockets
from hhd.transports.link import LinkError, Why
from hhd.transports.stream import StreamLink
from hhd.transports.tls import END, NOTHING_NOW, TlsConnection, Wants
from hhd_protocol.ids import DeviceId

_RECORD_BYTES = 16384
"""The largest record of TLS: who gets fewer bytes has got all that is there, most likely."""

_TURNS = 4
"""How often a link is read until others have their turn, some records each time."""


@dataclass(frozen=True, kw_only=True)
class Proven:
    """A connection whose other end has proven who it is."""

    own: socket.socket
    connection: TlsConnection
    peer: DeviceId
    remote: str


class TlsWire:
    """A TLS connection as the `Wire` of a link."""

    def __init__(self, proven: Proven, linger_seconds: float) -> None:
        self._socket, self._connection, self.remote = proven.own, proven.connection, proven.remote
        self._linger = linger_seconds
        self._loop = asyncio.get_running_loop()
        self._fill = sockets.Fill(proven.own, self._loop.time())
        self._sent = 0
        self._link: StreamLink
        self._closed = False

    def attach(self, link: StreamLink) -> None:
        """From now on `link` is told what comes."""
        self._link = link
        self._loop.add_reader(self._socket, self._readable)

    def write(self, raw: memoryview) -> int:
        """See `Wire.write`."""
        sent = 0
        try:
            sent = self._connection.write(raw)
            self._sent += sent
            if sent < len(raw):
                self._fill.full(self._sent, self._loop.time())
                self._sent = 0
                self._loop.add_writer(self._socket, self._writable)
        except LinkError as error:
            self._loop.call_soon(self._broke, error)  # Not now: whoever sends is in the middle of something.
        return sent

    def finish(self) -> None:
        """See `Wire.finish`: what was sent is read there before the connection is reset by what was not read here."""
        if self._closed:
            return
        self._stop()
        self._connection.say_end()
        lingering = self._loop.create_task(hang_up(self._socket, self._linger))
        _LINGERING.add(lingering)
        lingering.add_done_callback(_LINGERING.discard)

    def abort(self) -> None:
        """See `Wire.abort`."""
        if not self._closed:
            self._stop()
            self._socket.close()

    def _stop(self) -> None:
        self._closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        link, connection = self._link, self._connection
        try:
            for _ in range(_TURNS):  # Then others have theirs; what is left makes the socket readable again.
                room, filled, count = link.room(), 0, _RECORD_BYTES
                while count == _RECORD_BYTES and len(room) - filled >= _RECORD_BYTES:
                    count = connection.read_into(room[filled : filled + _RECORD_BYTES])
                    filled += max(0, count)
                if filled:
                    link.received(filled)
                if self._closed or count == NOTHING_NOW:
                    return
                if count == END:
                    raise LinkError(Why.LOST, "The connection was closed without a word.")
                if count < _RECORD_BYTES:
                    return
        except LinkError as error:
            self._broke(error)

    def _writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._link.has_room()

    def _broke(self, error: LinkError) -> None:
        if not self._closed:
            self._link.broke(error)


_LINGERING: set[asyncio.Task[None]] = set()
"""Holds the tasks that wait for the other side to read the end: the loop itself holds none."""


async def hang_up(own: socket.socket, seconds: float) -> None:
    """Say that nothing more comes, read what still does for a moment, close."""
    loop = asyncio.get_running_loop()
    try:
        own.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(seconds):
            while await loop.sock_recv(own, 65536):
                pass
    except (OSError, TimeoutError):
        pass
    finally:
        own.close()


async def ready(own: socket.socket, wants: Wants, *, seconds: float | None = None) -> None:
    """Wait until a socket can be read from, or written to; raises LinkError after `seconds`."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()
    add, remove = (
        (loop.add_reader, loop.remove_reader) if wants is Wants.READ else (loop.add_writer, loop.remove_writer)
    )
    fd = own.fileno()
    add(fd, lambda: None if came.done() else came.set_result(None))
    try:
        async with asyncio.timeout(seconds):
            await came
    except TimeoutError:
        raise LinkError(Why.LOST, "The other end said nothing in time.") from None
    finally:
        remove(fd)
