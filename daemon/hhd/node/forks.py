"""Workers as the daemon has them: forked on demand, spoken to over a pair, ended, and seen to have ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hhd.node import pair
from hhd_protocol.errors import FormatError
from hhd_protocol.frames import Frames

IDLE_SECONDS = 60.0
"""The zygote is kept so long after its last worker ended: a person who answers does so within that, often."""

_READ_BYTES = 256 * 1024
_WAITING_BYTES_MAX = 4 * pair.PAIR_BYTES_MAX


@dataclass(eq=False)
class Worker(asyncio.Protocol):
    """One worker: `on_message` gets what it says, `on_end` is called once it is gone, all in the loop's thread."""

    process: int
    on_message: Callable[[pair.FromWorker], None] = lambda _: None
    on_end: Callable[[], None] = lambda: None
    handle: int | None = None
    """Of the process itself, where the system has such: its number may be another's when it is gone."""
    status: int | None = None
    """As `waitpid` gave it; None while it is not known."""
    beat: bool = True
    """It was heard of since this was last looked at."""
    _transport: asyncio.Transport | None = None
    _frames: Frames = field(default_factory=lambda: Frames(bytes_max=pair.PAIR_BYTES_MAX))

    def say(self, message: pair.ToWorker) -> None:
        """Say something; one that is gone does not hear it."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > _WAITING_BYTES_MAX:
            self.kill()  # It takes nothing: what it was told would be all the memory there is.
            return
        self._transport.write(pair.raw(message))

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            if self.handle is not None:
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
            elif self.status is None:
                os.kill(self.process, signal.SIGKILL)

    def close(self) -> None:
        """Let go of it: it notices, pauses and ends."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It can be spoken to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take what it says; one that says nonsense is ended."""
        self.beat = True
        try:
            for value in self._frames.feed(data):
                self.on_message(pair.from_worker(value))
        except FormatError:
            self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, or says nothing any more, which is the same: nobody would hear of what it does."""
        self.kill()
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
        self.on_end()


class Forks:
    """Forks workers, from a zygote that is there as long as it is needed."""

    def __init__(self) -> None:
        self._zygote: subprocess.Popen[bytes] | None = None
        self._asked: socket.socket | None = None
        self._turn = asyncio.Lock()
        self._wished: deque[asyncio.Future[Worker]] = deque()
        """Forks that were asked for and not reported yet, in their order; those too that nobody waits for any more."""
        self._workers: dict[int, Worker] = {}
        self._idle: asyncio.TimerHandle | None = None

    @property
    def process(self) -> int | None:
        """The zygote's process; None where there is none."""
        return None if self._zygote is None else self._zygote.pid

    async def fork(self, *, with_model: bool) -> Worker:
        """Return a new worker, that waits for its first message; raises OSError where there can be none."""
        async with self._turn:
            for last in (False, True):
                try:
                    return await self._fork(with_model)
                except OSError:  # The zygote is gone, somebody killed it: another one is begun, once.
                    self._gone()
                    if last:
                        raise
            raise AssertionError

    async def _fork(self, with_model: bool) -> Worker:
        loop = asyncio.get_running_loop()
        asked = self._asked or self._begin()
        self._stay()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                wish = pair.WITH_MODEL if with_model else pair.PLAIN
                socket.send_fds(asked, [wish], [theirs.fileno()])
            forked: asyncio.Future[Worker] = loop.create_future()
            self._wished.append(forked)
            worker = await forked
            ours.setblocking(False)
            await loop.connect_accepted_socket(lambda: worker, ours)
        except BaseException:
            ours.close()  # One that was forked all the same notices, and ends.
            raise
        return worker

    def _stay(self) -> None:
        """The zygote is needed."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._zygote = subprocess.Popen(
                [sys.executable, "-P", "-m", "hhd.node.zygote", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C at a daemon in the foreground is for the daemon.
            )
        ours.setblocking(False)
        self._asked = ours
        asyncio.get_running_loop().add_reader(ours, self._heard)
        return ours

    def _heard(self) -> None:
        assert self._asked is not None
        try:
            report = self._asked.recv(pair.REPORT.size)
        except BlockingIOError:
            return
        except OSError:
            report = b""
        if len(report) != pair.REPORT.size:
            self._gone()
            return
        kind, process, status = pair.REPORT.unpack(report)
        if kind == pair.FORKED and self._wished:
            worker = self._workers[process] = Worker(process)
            with contextlib.suppress(OSError, AttributeError):
                worker.handle = os.pidfd_open(process)
            if not (forked := self._wished.popleft()).done():
                forked.set_result(worker)
        elif kind == pair.ENDED and (ended := self._workers.pop(process, None)) is not None:
            ended.status = status
            if not self._workers and not self._wished:
                self._stay()
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._gone)

    def _gone(self) -> None:
        """Let go of the zygote; it ends once its workers have."""
        if self._asked is not None:
            asyncio.get_running_loop().remove_reader(self._asked)
            self._asked.close()
            self._asked = None
        self._stay()
        for forked in self._wished:
            if not forked.done():
                forked.set_exception(OSError("the process that workers are forked from is gone"))
        self._wished.clear()
        if self._zygote is not None:
            self._zygote.poll()
            self._zygote = None
        self._workers.clear()

    def close(self) -> None:
        """Let go of all: workers pause, and the zygote ends after them."""
        for worker in list(self._workers.values()):
            worker.close()
        self._gone()
