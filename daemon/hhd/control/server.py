"""The daemon's end of the control socket: lets in who may come in, and bounds what they may take up.

Everyone who gets in is this user, but a program of this user's may be broken or hostile, and none may keep another one
waiting. So each has a bounded number of requests open and bytes waiting; who takes nothing keeps its place only while
nobody needs it. What a verb does is not known here: `Service` does it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from hhd.base.errors import Exit, RefusedError, UserError
from hhd.control import peer
from hhd_protocol import control
from hhd_protocol.codec import Value
from hhd_protocol.control import (
    Answer,
    Cancel,
    End,
    Event,
    Failed,
    FromClient,
    FromDaemon,
    Hello,
    Request,
)
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.frames import Frames, frame
from hhd_protocol.limits import CONTROL_REQUEST_BYTES_MAX, CONTROL_SENTENCE_BYTES_MAX

_KEEP: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""Who made the file of the socket removes it: that may be the service manager. Newer Pythons would."""


Ended = Callable[[str, str, float, Exception | None], None]
"""Told of each request that is over: its verb, how it ended (`done`, `cancelled`, `failed`, or the name of an exit
status), how many seconds it took, and the error where it was nobody's who asked."""


class Service(Protocol):
    """What is asked of the daemon."""

    def do(self, verb: str, arguments: dict[Value, Value]) -> Coroutine[Any, Any, Value] | AsyncIterator[Value]:
        """Return what comes of `verb`: one result, or a stream. Both raise UserError; so does this."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What all connections together, and each, may take up (`spec/control.md`, Bounds that the daemon keeps)."""

    connections: int = 256
    """A person has some terminals and scripts; with twice as many descriptors the usual limit of 1,024 is far."""

    open_requests: int = 64
    """Of one connection."""

    hello_seconds: float = 10
    """A client says hello at once."""

    waiting_bytes: int = 1024 * 1024
    """That wait for one client. With more, nothing is done for it."""

    waiting_seconds: float = 3600
    """That they may wait: a pager stands still for as long as its reader thinks."""

    end_seconds: float = 5
    """For what is being done when the daemon is told to end."""


class Server:
    """Serves `service` to all who connect to a listening socket."""

    def __init__(
        self,
        service: Service,
        *,
        hhd: str,
        bounds: Bounds | None = None,
        ended: Ended = lambda *_: None,
        refuses: Callable[[socket.socket], str | None] = lambda _: None,
    ) -> None:
        self.service, self.bounds, self.hhd, self.ended = service, bounds or Bounds(), hhd, ended
        self.refuses = refuses
        self.connections: dict[_Connection, None] = {}
        """In the order in which they came."""
        self._tasks: asyncio.TaskGroup | None = None
        self._listening: list[asyncio.Server] = []
        self.ending = False

    async def serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; what is being done then is done, and said, before this returns."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                await self._until(listener, stop)
        finally:  # Cancelled, it is over at once.
            for one in list(self.connections):
                one.abort()

    async def listen(self, listener: socket.socket) -> None:
        """Let in who connects to `listener`, until this ends; may be called again, for one more."""
        listening = await asyncio.get_running_loop().create_unix_server(
            lambda: _Connection(self), sock=listener, backlog=self.bounds.connections, **_KEEP
        )
        self._listening.append(listening)
        if self.ending:
            listening.close()

    async def _until(self, listener: socket.socket, stop: asyncio.Event) -> None:
        await self.listen(listener)
        await stop.wait()
        self.ending = True
        for door in self._listening:
            door.close()
        for one in list(self.connections):
            one.finish()
        running = [task for one in self.connections for task in one.tasks.values()]
        if running:
            await asyncio.wait(running, timeout=self.bounds.end_seconds)
        for task in running:
            task.cancel()
        for one in list(self.connections):
            one.close()
        left = [one.lost for one in self.connections]
        if left:
            await asyncio.wait(left, timeout=self.bounds.end_seconds)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin `work` as a task of this server."""
        assert self._tasks is not None
        return self._tasks.create_task(work)

    def admit(self, fresh: _Connection) -> bool:
        """Give `fresh` a place, one of who makes no use of it if there is no other; say whether it got one."""
        if len(self.connections) >= self.bounds.connections:
            # Who has said nothing goes first, then who takes nothing, then who wants nothing.
            for idle in (lambda one: not one.greeted, lambda one: one.stuck, lambda one: not one.tasks):
                gone = next((one for one in self.connections if idle(one)), None)
                if gone is not None:
                    gone.abort()
                    self.connections.pop(gone, None)
                    break
            else:
                return False
        self.connections[fresh] = None
        return True


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._frames = Frames(bytes_max=CONTROL_REQUEST_BYTES_MAX)
        self._queue: deque[Request] = deque()
        self._version: int | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.kept: set[int] = set()
        """Of these, those that are done whatever happens: they may change something."""
        self.greeted = self._let_in = False
        self._refused: str | None = None
        """Why everything that it asks is."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def stuck(self) -> bool:
        """Whether so much waits for this client that nothing more is done for it."""
        return not self._room.is_set()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, or not: of another user nothing is read, and nothing is said to it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._room.set()
        if not self._is_ours() or self._server.ending or not self._server.admit(self):
            transport.abort()
            return
        self._let_in = True
        self._refused = self._server.refuses(transport.get_extra_info("socket"))
        bounds = self._server.bounds
        transport.set_write_buffer_limits(high=bounds.waiting_bytes)
        self._wait_at_most(bounds.hello_seconds)
        self._say(Hello(control.VERSIONS, self._server.hhd))

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there to hear of anything: what has not begun does not begin, and streams end."""
        self._wait_at_most(None)
        self._server.connections.pop(self, None)
        self._queue.clear()
        self._room.set()
        for task in self.tasks.values():
            task.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take what a client said; with what is no message, the connection ends."""
        if not self._let_in or self._transport.is_closing():
            return
        try:
            for value in self._frames.feed(data):
                self._take(control.from_client(value))
        except FormatError:
            self.abort()
            return
        self._begin()

    def pause_writing(self) -> None:
        """So much waits that nothing more is done until it is taken."""
        self._room.clear()
        self._wait_at_most(self._server.bounds.waiting_seconds)

    def resume_writing(self) -> None:
        """It was taken."""
        self._wait_at_most(None)
        self._room.set()
        self._begin()

    # What a client said

    def _take(self, message: FromClient) -> None:
        """Note a message; raises FormatError where it may not come here."""
        match message:
            case Hello(versions=versions):
                if self.greeted:
                    raise FormatError("a second hello")
                self._wait_at_most(None)
                self.greeted = True
                self._version = control.common(control.VERSIONS, versions)
            case _ if not self.greeted:
                raise FormatError("a message before the hello")
            case Request(id=id):
                if id in self.tasks or any(one.id == id for one in self._queue):
                    raise FormatError("a second request of the same id")
                self._queue.append(message)
            case Cancel(id=id):
                self._cancel(id)

    def _begin(self) -> None:
        """Begin what may begin, and read on if nothing is left over."""
        bounds = self._server.bounds
        while self._queue and len(self.tasks) < bounds.open_requests and not self.stuck and not self._server.ending:
            request = self._queue.popleft()
            self.tasks[request.id] = self._server.start(self._done(request))
        if self._transport.is_closing():
            return
        if self._queue or self.stuck:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _is_ours(self) -> bool:
        try:
            return peer.user_of(self._transport.get_extra_info("socket")) == os.geteuid()
        except OSError:
            return False

    def _cancel(self, id: int) -> None:
        if id in self.tasks and id not in self.kept:
            self.tasks[id].cancel()
        for one in list(self._queue):
            if one.id == id:
                self._queue.remove(one)
                self._write(self._failed(id, _CANCELLED, Exit.REFUSED))

    # What comes of it

    async def _done(self, request: Request) -> None:
        """Do one request and say what came of it."""
        begun, how = time.monotonic(), "done"
        fault: Exception | None = None
        try:
            said = self._raw(await self._outcome(request))
        except asyncio.CancelledError:
            said, how = b"", "cancelled"
            if request.id not in self.kept:
                said = self._failed(request.id, _ENDING if self._server.ending else _CANCELLED, Exit.REFUSED)
        except UserError as error:
            how = error.exit.name.lower()
            said = self._failed(request.id, str(error), error.exit)
        except TooLargeError:
            said = self._failed(request.id, "The answer does not fit a message, so it was not sent.", Exit.UNEXPECTED)
        except OSError as error:
            how, fault = "failed", error
            place = f" ({error.filename})" if error.filename else ""
            said = self._failed(request.id, f"The system said: {error.strerror or error}{place}.", Exit.UNEXPECTED)
        except Exception as error:  # noqa: BLE001  The supervisor of all requests: one that fails costs no other one.
            how, fault = "failed", error
            sentence = f"The daemon failed, which is a fault of hhd: {error!r:.500}"
            said = self._failed(request.id, sentence, Exit.UNEXPECTED)
        self.kept.discard(request.id)
        del self.tasks[request.id]
        self._server.ended(request.verb, how, time.monotonic() - begun, fault)
        self._write(said)
        self._begin()

    async def _outcome(self, request: Request) -> Answer | End:
        if self._refused is not None:
            raise RefusedError(self._refused)
        if self._version is None and not (request.verb in control.EVERLASTING and not request.arguments):
            raise RefusedError("This hhd and the daemon that runs have no version in common; nothing was changed.")
        doing = self._server.service.do(request.verb, request.arguments)
        if not isinstance(doing, Coroutine):
            return await self._streamed(request.id, doing)
        if request.verb in control.EVERLASTING:
            return Answer(request.id, await doing)
        try:
            async with self._turn:  # One at a time: of what is done for it, one answer at most waits for room.
                await self._room.wait()
                self.kept.add(request.id)
                return Answer(request.id, await doing)
        finally:
            doing.close()  # Where it did not begin.

    async def _streamed(self, id: int, events: AsyncIterator[Value]) -> End:
        position = 0
        try:
            async for event in events:
                await self._room.wait()
                if self._transport.is_closing():
                    break
                self._say(Event(id, position, event))
                position += 1
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await asyncio.shield(close())
        return End(id)

    def _say(self, message: FromDaemon) -> None:
        self._write(self._raw(message))

    def _failed(self, id: int, sentence: str, exit: Exit) -> bytes:
        """What is said where nothing came of a request; the sentence is made to fit a message."""
        raw = sentence.encode("utf-8", "backslashreplace")[:CONTROL_SENTENCE_BYTES_MAX]
        return self._raw(Failed(id, raw.decode("utf-8", "ignore") or "No reason was given.", int(exit)))

    def _raw(self, message: FromDaemon) -> bytes:
        return frame(control.encoded(message))

    def _write(self, raw: bytes) -> None:
        if raw and not self._transport.is_closing():
            self._transport.write(raw)

    # Its end

    def finish(self) -> None:
        """Begin nothing more, and end streams; what may change something goes on."""
        for one in self._queue:
            self._write(self._failed(one.id, _ENDING, Exit.REFUSED))
        self._queue.clear()
        for id, task in self.tasks.items():
            if id not in self.kept:
                task.cancel()

    def close(self) -> None:
        """Close the connection once what was said is taken."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _wait_at_most(self, seconds: float | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if seconds is not None:
            self._patience = asyncio.get_running_loop().call_later(seconds, self.abort)


_ENDING = "The daemon is ending, so this was not done; nothing was changed."
_CANCELLED = "It was cancelled, so it was not done."
