"""The daemon: one process per person that answers on the control socket, from the first moment to the last.

There is one at a time, since it holds a lock; how the last one ended does not matter. Told to end, it lets in nobody
more, does what it has begun, and takes its socket away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from hhd.base import locks
from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder, private_folder
from hhd.base.release import RELEASE
from hhd.control import place
from hhd.control.address import LOCK_FILE
from hhd.control.server import Bounds, Server
from hhd.node.answers.status import Status
from hhd.node.listed import Overview
from hhd.node.verbs import Open, Verbs

LOCK_SECONDS = 1.0
"""Who looks whether a daemon runs holds its lock for a moment."""


def run(*, opened: Open, overview: Callable[[str, bool], Overview], ready: Callable[[], None]) -> None:
    """Serve until a signal or `down` ends it; `ready` is called once it listens.

    Raises RefusedError where a daemon runs already, or something is in the way of its socket; OSError.
    """
    data = private_folder(data_folder())
    lock = locks.take_within(data / LOCK_FILE, LOCK_SECONDS)
    if lock is None:
        raise RefusedError("A daemon runs already; hhd status says more.")
    with lock:
        path = place.socket_path(data)
        listener = place.listen(path, backlog=Bounds().connections)
        try:
            lock.write(os.fsencode(path))
            asyncio.run(_serve(listener, path, opened, overview, ready))
        finally:
            listener.close()
            with contextlib.suppress(OSError):  # What is left over stops nobody.
                os.unlink(path)
                lock.write(b"")


async def _serve(
    listener: socket.socket,
    path: Path,
    opened: Open,
    overview: Callable[[str, bool], Overview],
    ready: Callable[[], None],
) -> None:
    stop, since_ms = asyncio.Event(), time.time_ns() // 1_000_000
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def status() -> Status:
        return Status(
            hhd=RELEASE,
            process=os.getpid(),
            since_ms=since_ms,
            socket=str(path),
            connections=len(server.connections),
        )

    verbs = Verbs(opened=opened, overview=overview, status=status, down=stop.set)
    server = Server(verbs, hhd=RELEASE)
    try:
        ready()
        await server.serve(listener, stop)
    finally:
        verbs.close()
