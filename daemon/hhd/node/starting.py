"""Starts the daemon in the background, ends it, and asks it how it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hhd.base import config, locks
from hhd.base.errors import RefusedError, UserError
from hhd.base.paths import data_folder
from hhd.control import address
from hhd.control.address import LOCK_FILE
from hhd.control.client import Connection
from hhd.node.answers.status import Status
from hhd.node.services import Manager
from hhd_protocol import mapping
from hhd_protocol.errors import FormatError

UP_SECONDS, DOWN_SECONDS = 20.0, 20.0
"""For a daemon that another process just starts to listen; for one that ends to finish what it does."""

SILENT_SECONDS = 2.0
"""For one that holds its lock to be reached: it starts just now, or makes its socket anew that somebody removed."""

_SAID_BYTES_MAX = 64 * 1024
_LOOK_SECONDS = 0.02

Link = Callable[[], Connection | None]


class SilentError(RefusedError):
    """A daemon holds the lock of the folder `data`, and nobody answers where it said that its socket is."""

    def __init__(self, data: Path) -> None:
        process, lock = locks.holder(data / LOCK_FILE), data / LOCK_FILE
        called = "A daemon" if process is None else f"A daemon (process {process})"
        super().__init__(
            f"{called} holds {lock} and does not answer at {address.said(data) or 'any socket'}; nothing was changed. "
            f"Unless it ends by itself, end it ({'its process' if process is None else f'kill {process}'}), "
            "and then run hhd up."
        )


def up(link: Link, manager: Manager | None = None) -> tuple[Status, bool]:
    """Start the daemon unless one runs; return what it says of itself, and whether it was started here.

    `manager`: who starts it. Raises RefusedError with what it said where it did not start, SilentError, UserError of
    the manager.
    """
    running = status(link) if manager is None or locks.held(data_folder() / LOCK_FILE) else None
    if running is not None:
        return running, False
    if manager is not None:
        try:
            manager.start()  # It waits until the daemon says that it is ready.
        except UserError:
            config.load()  # The usual reason; the manager only says that it failed.
            raise
        running = status(link)
        if running is None:
            raise RefusedError("The service manager started the daemon, and it does not answer; hhd logs says more.")
        return running, True
    process, said = _started()
    end = time.monotonic() + UP_SECONDS
    # It has ended, or listens. If it has, another one may be about to listen: of two that start, one stays.
    while (running := _answer(link)) is None:
        if time.monotonic() > end or (process.poll() is not None and (running := status(link)) is None):
            raise RefusedError(_reason(said))
        if running is not None:
            break
        time.sleep(_LOOK_SECONDS)
    return running, running.process == process.pid


def _started() -> tuple[subprocess.Popen[bytes], str]:
    """Start a daemon in a session of its own; with what it said before it listened, or ended."""
    names = [f"HHD_{kind}_HOME" for kind in ("CONFIG", "DATA", "CACHE", "WORKSPACES")]
    folders = {name: os.path.abspath(os.environ[name]) for name in names if os.environ.get(name)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "hhd", "daemon", "--detach"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",  # Not the folder it was started in, which could then not be unmounted.
        env={**os.environ, **folders},
    )
    assert process.stderr is not None
    with process.stderr as pipe:
        said = pipe.read(_SAID_BYTES_MAX)  # It closes its end when it listens, or ends.
    return process, said.decode("utf-8", "replace")


def _reason(said: str) -> str:
    last = said.strip().splitlines()[-1:]
    return (
        last[0].removeprefix("hhd: ") if last else "The daemon did not start; hhd daemon, in the foreground, says why."
    )


def detached() -> None:
    """Let go of the terminal, and of who started this process: that its end is closed says that this listens."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    os.close(nowhere)


def down(link: Link, manager: Manager | None = None) -> bool:
    """End the daemon and wait for its end; False where none runs. Raises UserError where it takes too long.

    `manager`: who would start it again for the next that connects, and so has to stop it.
    """
    if manager is not None:
        ran = locks.held(data_folder() / LOCK_FILE)
        manager.stop()
        if not locks.held(data_folder() / LOCK_FILE):
            return ran
    connection = reached(link)
    if connection is None:
        return False
    with connection:
        connection.ask("down", {})
        ended = connection.ended(DOWN_SECONDS)
    end = time.monotonic() + DOWN_SECONDS
    while ended and locks.held(data_folder() / LOCK_FILE):
        ended = time.monotonic() < end
        time.sleep(_LOOK_SECONDS)
    if not ended:
        raise UserError("The daemon was told to end, and still does what it began; hhd status says when it is gone.")
    return True


def restart(link: Link, manager: Manager | None = None) -> tuple[Status, bool]:
    """End the daemon, in order, and start the hhd that is installed now; what it says of itself, and whether one ran.

    Its sessions are paused, durably, and go on with the new one. Raises what `up` and `down` do.
    """
    ran = locks.held(data_folder() / LOCK_FILE)
    if manager is not None and ran:
        manager.restart()
        running = status(link)
        if running is None:
            raise RefusedError("The service manager started the daemon, and it does not answer; hhd logs says more.")
        return running, True
    down(link, manager)
    return up(link, manager)[0], ran


def status(link: Link) -> Status | None:
    """Return what the daemon says of itself; None where none runs. Raises SilentError."""
    return _said(reached(link))


def reached(link: Link) -> Connection | None:
    """Return a connection to the daemon; None where none runs. Raises SilentError where one runs and is not reached."""
    end = time.monotonic() + SILENT_SECONDS
    while (connection := link()) is None and locks.held(data_folder() / LOCK_FILE):
        if time.monotonic() > end:
            raise SilentError(data_folder())
        time.sleep(_LOOK_SECONDS)
    return connection


def _answer(link: Link) -> Status | None:
    return _said(link())


def _said(connection: Connection | None) -> Status | None:
    if connection is None:
        return None
    with connection:
        said = connection.ask("status", {}, changes=False)
        try:
            found: Status = mapping.from_value(Status, said)
        except FormatError:
            assert connection.daemon is not None  # Of another age: its hello says which, in any version.
            found = Status(hhd=connection.daemon.hhd, process=0, since_ms=0, socket="", connections=0)
    return found
