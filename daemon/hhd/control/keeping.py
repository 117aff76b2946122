"""Keeps the daemon's socket where the daemon said that it is: where its file is gone, it is made anew.

A runtime folder that is cleared takes the file away, and a daemon that nobody can reach could not even be ended in
order. The kernel says when something leaves the folder (dnotify), so an idle daemon is not woken to look.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from hhd.base import log
from hhd.base.errors import UserError

SETTLE_SECONDS = 0.5
"""After something left the folder: a service manager that makes its socket anew removes the old one first."""
LOOK_SECONDS = 5.0
"""Between two looks, where the kernel says nothing, and between two tries where the socket cannot be made."""


async def keep(path: Path, anew: Callable[[], Awaitable[None]]) -> None:
    """Call `anew` whenever nothing is at `path`, until cancelled; where it raises OSError or UserError, again later."""
    left, failing = asyncio.Event(), False
    while True:
        with _told(path.parent, left.set) as is_told:
            if os.path.lexists(path):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if is_told else LOOK_SECONDS):
                        await left.wait()
                left.clear()
                await asyncio.sleep(SETTLE_SECONDS)
                continue
        try:
            await anew()
            log.warn("socket_made_anew")
            failing = False
        except (OSError, UserError) as error:
            if not failing:
                log.fault("socket_gone", error)
            failing = True
            await asyncio.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _told(folder: Path, left: Callable[[], None]) -> Iterator[bool]:
    """While it lasts, `left` is called when something leaves `folder`; False where the kernel does not say so."""
    with contextlib.ExitStack() as stack:
        try:
            notify, kinds = fcntl.F_NOTIFY, fcntl.DN_DELETE | fcntl.DN_RENAME | fcntl.DN_MULTISHOT
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, fd)  # With it nothing more is told.
            asyncio.get_running_loop().add_signal_handler(signal.SIGIO, left)
            caught = signal.getsignal(signal.SIGIO) is not signal.SIG_DFL  # Uncaught it would end the process.
            if caught:
                fcntl.fcntl(fd, notify, kinds)
        except (AttributeError, OSError, RuntimeError, ValueError):  # Not Linux, no such folder, not the main thread.
            caught = False
        yield caught
