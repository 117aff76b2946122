"""A server of the control socket with a made-up service, in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from hhd.base.errors import UncertainError, UsageError
from hhd.control import place
from hhd.control.client import Connection, connect
from hhd.control.server import Bounds, Server
from hhd_protocol import control
from hhd_protocol.codec import Value
from hhd_protocol.control import Hello, Request
from hhd_protocol.frames import Frames, frame

PART = bytes(200_000)


class Made:
    """Verbs for tests; `began` and `ended` count, `go` lets `wait` end."""

    def __init__(self) -> None:
        self.began, self.ended, self.streams = [], 0, 0
        self.go = asyncio.Event()
        self.stop = asyncio.Event()

    def do(self, verb: str, arguments: dict[Value, Value]) -> Coroutine[Any, Any, Value] | AsyncIterator[Value]:
        if verb == "count":
            return self._count(arguments["to"])
        if verb == "much":
            return self._much()
        return self._one(verb, arguments)

    async def _one(self, verb: str, arguments: dict[Value, Value]) -> Value:
        self.began.append(verb)
        match verb:
            case "echo":
                return arguments
            case "large":
                return bytes(5_000_000)
            case "wait":
                await self.go.wait()
                self.ended += 1
                return "waited"
            case "usage":
                raise UsageError("These words are off.")
            case "uncertain":
                raise UncertainError("Who knows.")
            case "disk":
                raise OSError(28, "No space left on device", "/a/file")
            case "bug":
                raise ZeroDivisionError("a fault")
            case "odd":
                return object()  # type: ignore[return-value]
            case "status":
                return {"anything": True}
            case "down":
                self.stop.set()
                return True
        raise UsageError(f"There is no {verb}.")

    async def _count(self, to: Any) -> AsyncIterator[Value]:
        for n in range(to):
            yield n

    async def _much(self) -> AsyncIterator[Value]:
        self.streams += 1
        try:
            while True:
                yield PART
                await asyncio.sleep(0)
        finally:
            self.streams -= 1
            self.ended += 1


class Served:
    """Serves while it lasts."""

    def __init__(self, folder: Path, bounds: Bounds | None = None) -> None:
        self.path = folder / "run" / "control.sock"
        self._bounds = bounds
        self._up = threading.Event()

    def __enter__(self) -> Served:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._up.wait(240)
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self.made.go.set)
        self.call(self.made.stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self.made, self._loop = Made(), asyncio.get_running_loop()
        self.server = Server(self.made, hhd="1.0", bounds=self._bounds)
        listener = place.listen(self.path, backlog=128)
        self._up.set()
        await self.server.serve(listener, self.made.stop)

    def call(self, act: Any) -> None:
        """Do something in the server's thread, and wait for it."""
        if self._thread.is_alive() and not self._loop.is_closed():
            done = threading.Event()
            try:
                self._loop.call_soon_threadsafe(lambda: (act(), done.set()))
            except RuntimeError:
                return
            while not done.wait(0.05) and self._thread.is_alive():  # It may end before it comes to this.
                pass

    def until(self, holds: Callable[[], object]) -> None:
        """Let the server go on until something holds."""
        while not holds():
            self.call(lambda: None)

    def client(self, hhd: str = "1.0") -> Connection:
        connection = connect(self.path, hhd=hhd)
        assert connection is not None
        return connection

    def raw(self) -> Raw:
        return Raw(self.path)


class Raw:
    """A client that says what it likes."""

    def __init__(self, path: Path, *, greets: bool = False) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        with place.reachable(path) as short:
            self.socket.connect(short)
        self.socket.settimeout(240)
        self.frames, self.came = Frames(bytes_max=2**26), []
        if greets:
            self.say(control.encoded(Hello(control.VERSIONS, "1.0")))

    def say(self, *values: Value) -> None:
        self.socket.sendall(b"".join(frame(one) for one in values))

    def ask(self, id: int, verb: str, arguments: dict[Value, Value] | None = None) -> None:
        self.say(control.encoded(Request(id, verb, arguments or {})))

    def hear(self) -> Value:
        """The next value; None where the connection has ended."""
        while not self.came:
            try:
                raw = self.socket.recv(1 << 20)
            except ConnectionError:
                return None
            if not raw:
                return None
            self.came += self.frames.feed(raw)
        return self.came.pop(0)

    def is_cut(self) -> bool:
        """Whether the daemon closes the connection, after what it may still have to say."""
        while self.hear() is not None:
            pass
        return True

    def close(self) -> None:
        self.socket.close()
