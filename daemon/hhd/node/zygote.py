"""The process that workers are forked from: it has imported what they need, and has done nothing else.

A fork costs a millisecond and shares what was imported with all others; a new interpreter would cost a hundred times as
much. It has one thread and never compiles: a compiler's threads would not be there in a child that waits for them.

It is asked over a pair of sockets: one message is one wish for a worker, with that worker's end of its pair; it answers
with `forked` and the process, and says `ended` with the status of each that ended. When nobody is there to ask any
more, it waits until the workers, who notice it too, have paused, ends those that have not, and ends.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time

from hhd.node import leftovers, worker
from hhd.node.pair import ENDED, FORKED, REPORT, WITH_MODEL

SHARED = (
    "hhd.effects.scripted", "hhd.identity.keyring", "hhd.node.captures", "hhd.node.findings", "hhd.node.release_file",
    "hhd.runtime.compile", "hhd.workspace.capture", "hhd.workspace.capture_folder",
    "hhd.workspace.capture_repository", "hhd.workspace.operation", "hhd_protocol.group", "pathspec", "resource",
)  # fmt: skip
"""What a worker imports by the way, imported once for all: it is not in the memory of each."""

LAST_SECONDS = 15.0
"""For workers to pause once the daemon is gone: an effect that is cancelled ends in a second or two."""


def main() -> None:
    """Be the zygote whose end of the pair is the descriptor named on the command line."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(asked.fileno(), False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # The daemon says when it is over.
        signal.signal(number, signal.SIG_IGN)
    woken, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    leftovers.adopt_orphans()
    for name in SHARED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # What is shared is not touched by a child's collector.
    workers: set[int] = set()
    while True:
        ready = select.select([asked.fileno(), woken], [], [])[0]
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for process, status in _ended(workers):
                with contextlib.suppress(OSError):
                    asked.send(REPORT.pack(ENDED, process, status))
        if asked.fileno() in ready:
            wish, descriptors, _, _ = socket.recv_fds(asked, 1, 1)
            if not wish:
                break
            process = _forked(wish, descriptors[0], (asked, woken, wakes))
            workers.add(process)
            with contextlib.suppress(OSError):
                asked.send(REPORT.pack(FORKED, process, 0))
    _last(workers)


def _forked(wish: bytes, descriptor: int, own: tuple[socket.socket, int, int]) -> int:
    if wish == WITH_MODEL:
        _rehearse()
    process = os.fork()
    if process:
        os.close(descriptor)
        return process
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    own[0].close()
    os.close(own[1])
    os.close(own[2])
    worker.forked(socket.socket(fileno=descriptor))
    raise AssertionError("a worker does not return")


@functools.cache
def _rehearse() -> None:
    """Load the client of a model, once: what the first call does late is done before the fork, and shared."""
    with contextlib.suppress(Exception):  # Its cause is met again, and told, by the worker that makes a call.
        from hhd.effects.rehearsal import rehearse

        rehearse()
    gc.collect()
    gc.freeze()


def _ended(workers: set[int]) -> list[tuple[int, int]]:
    """Workers that ended, with their status; what their commands left running, which is nobody's now, ends too."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            if one[0] in workers:
                workers.discard(one[0])
                found.append(one)
    leftovers.end_children(but=workers)
    return found


def _last(workers: set[int]) -> None:
    end = time.monotonic() + LAST_SECONDS
    while workers and time.monotonic() < end:
        _ended(workers)
        time.sleep(0.02)
    leftovers.end_children()


if __name__ == "__main__":
    main()
