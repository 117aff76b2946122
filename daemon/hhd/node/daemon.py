"""The daemon: one process per person that answers on the control socket, from the first moment to the last.

There is one at a time, since it holds a lock; how the last one ended does not matter. Told to end, it lets in nobody
more, does what it has begun, and takes its socket away, unless a service manager handed it over and keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hhd.base import locks
from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder, private_folder
from hhd.base.release import RELEASE
from hhd.control import activation, keeping, place
from hhd.control.address import LOCK_FILE
from hhd.control.server import Bounds, Ended, Server
from hhd.node.answers.status import Status
from hhd.node.lanes import Lanes
from hhd.node.service import STOP_SECONDS, Part, Table, Verb

LOCK_SECONDS = 1.0
"""Who looks whether a daemon runs holds its lock for a moment."""


def run(
    *,
    parts: Sequence[Part],
    ready: Callable[[], None],
    lanes: Lanes,
    says: Callable[[Path], tuple[str, ...]] = lambda _: (),
    ended: Ended = lambda *_: None,
    refuses: Callable[[socket.socket], str | None] = lambda _: None,
    lacking: str = "",
) -> None:
    """Serve until a signal or `down` ends it; `ready` is called once it listens.

    `says`: sentences for `hhd status`, of the folder of the socket; asked each time, in a thread. `ended` is told of
    each request that is over. `refuses`: why one who connected is refused whatever it asks, None where it is not.
    `lacking`: why there are not all `parts` that should be, "" where there are.

    Raises RefusedError where a daemon runs already, or something is in the way of its socket; OSError; and what a part
    raised, which ended the daemon.
    """
    given = activation.inherited()
    data = private_folder(data_folder())
    lock = locks.take_within(data / LOCK_FILE, LOCK_SECONDS)
    if lock is None:
        raise RefusedError("A daemon runs already; hhd status says more.")
    with lock:
        path = place.socket_path(data) if given is None else activation.path_of(given)
        listener = place.listen(path, backlog=Bounds().connections) if given is None else given
        living = _Daemon(listener, path, parts, lanes, says, ended, refuses, lacking)
        try:
            lock.write(os.fsencode(path))
            asyncio.run(living.live(ready))
        finally:
            listener.close()
            if given is None or living.made_anew:  # Else whoever connects to it starts the next one.
                with contextlib.suppress(OSError):  # What is left over stops nobody.
                    os.unlink(path)
                    lock.write(b"")


class _Daemon:
    """One life of the daemon: the server beside its parts, in one TaskGroup."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        parts: Sequence[Part],
        lanes: Lanes,
        says: Callable[[Path], tuple[str, ...]],
        ended: Ended,
        refuses: Callable[[socket.socket], str | None],
        lacking: str,
    ) -> None:
        self._listener, self._path, self._parts, self._lanes, self._says = listener, path, parts, lanes, says
        self._since_ms = time.time_ns() // 1_000_000
        self._told, self._close = asyncio.Event(), asyncio.Event()
        self.made_anew = False
        """Whether the file of the socket is one that was made in the place of one that was gone."""
        own = {"status": Verb(self._status, changes=False), "down": Verb(self._down, changes=True)}
        table = Table(own, *(part.verbs() for part in parts), lacking=lacking)
        self._server = Server(table, hhd=RELEASE, ended=ended, refuses=refuses)

    async def live(self, ready: Callable[[], None]) -> None:
        """Live until told to end; then every part comes to rest while it is still served, and then nobody is."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._told.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._server.serve(self._listener, self._close))
                living = [tasks.create_task(part.run()) for part in self._parts]
                living.append(tasks.create_task(keeping.keep(self._path, self._listen_anew)))
                ready()
                await self._told.wait()
                await self._stop_parts()
                self._close.set()
                await serving
                for one in living:
                    one.cancel()
        except* Exception as group:  # noqa: BLE001  The supervisor: what a part raised is the reason that is said.
            raise _first(group) from None
        finally:
            self._lanes.close()

    async def _listen_anew(self) -> None:
        listener = place.listen(self._path, backlog=Bounds().connections)
        self.made_anew = True
        await self._server.listen(listener)

    async def _stop_parts(self) -> None:
        async def stop(part: Part) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await part.stop()

        async with asyncio.TaskGroup() as stopping:
            for part in self._parts:
                stopping.create_task(stop(part))

    async def _status(self) -> Status:
        return Status(
            hhd=RELEASE,
            process=os.getpid(),
            since_ms=self._since_ms,
            socket=str(self._path),
            connections=len(self._server.connections),
            says=await asyncio.to_thread(self._says, self._path.parent),
        )

    async def _down(self) -> bool:
        self._told.set()
        return True


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """What was raised first, however many groups of tasks stand around it."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
