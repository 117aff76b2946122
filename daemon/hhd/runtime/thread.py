"""The thread that a guest runs on, watched by the thread that asked for it.

Why a thread of its own: its stack is as large as we say, whatever the limits of the shell, so a guest that recurses
reaches its own limits first; the asking thread stays free, so a signal handler runs at once and can set the stop flag;
and it sees a guest that does not come back. Wasmtime lets go of Python's lock while a guest runs.

The backstop. A module that lies about its interrupt checks, or sits in one endless instruction, cannot be ended inside
its process without a cost on every loop of every honest guest (epochs) and not at all inside one bulk instruction. So
it is not: after `stuck_seconds` of processor time without a check the guest counts as stuck, what it holds is leaked
on purpose (its thread still uses it), and the process, a single step of the command line or a worker of the daemon,
says so and ends, which ends the thread. Processor time, not wall time: a busy or sleeping machine accuses no one.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable

from hhd.runtime.engine import THREAD_STACK_BYTES

_LOOK_SECONDS = 0.1
"""How often the watching thread looks; a guest that ends wakes it at once."""

_stack_size_lock = _thread.allocate_lock()


class Watch:
    """What the guest's thread tells the watching one."""

    def __init__(self) -> None:
        self.beats = 0
        """Counts interrupt checks at which the host was called."""
        self.clock: int | None = None
        self.error: BaseException | None = None
        self.ended = False

    def seconds(self) -> float:
        """Processor time of the guest's thread (where the system has no such clock: time)."""
        if self.clock is None:
            return time.monotonic()
        try:
            return time.clock_gettime(self.clock)
        except OSError:
            return 0.0  # the thread has ended; whoever asks is about to be woken


def run_watched(
    act: Callable[[], None],
    watch: Watch,
    *,
    stuck_seconds: float,
    cpu_seconds: float | None,
    stop: Callable[[bool], None],
) -> bool:
    """Run `act` on a thread of its own; return whether it came back.

    `stop` is called with True when `cpu_seconds` are over, and with False when the waiting thread itself was
    interrupted, which is passed on once `act` came back. An error of `act` is raised here.
    """
    done = _thread.allocate_lock()
    done.acquire()

    def body() -> None:
        try:
            if hasattr(time, "pthread_getcpuclockid"):
                watch.clock = time.pthread_getcpuclockid(_thread.get_ident())
            act()
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that asked)
            watch.error = error
        finally:
            watch.ended = True
            done.release()

    with _stack_size_lock:
        before = _thread.stack_size(THREAD_STACK_BYTES)
        try:
            _thread.start_new_thread(body, ())
        finally:
            _thread.stack_size(before)
    came_back, interruption = _wait(done, watch, stuck_seconds, cpu_seconds, stop)
    if interruption is not None:
        raise interruption
    if came_back and watch.error is not None:
        raise watch.error
    return came_back


def _wait(
    done: _thread.LockType,
    watch: Watch,
    stuck_seconds: float,
    cpu_seconds: float | None,
    stop: Callable[[bool], None],
) -> tuple[bool, BaseException | None]:
    beats, since, begin = -1, 0.0, None
    interruption: BaseException | None = None
    while True:
        try:
            if done.acquire(timeout=_LOOK_SECONDS):
                return True, interruption
        except BaseException as error:  # noqa: BLE001 (passed on after the guest's thread came to rest)
            interruption = error
            stop(False)
            if watch.ended:  # the lock may have been taken just before the interruption
                return True, interruption
        now = watch.seconds()
        begin = now if begin is None else begin
        if cpu_seconds is not None and now - begin > cpu_seconds:
            stop(True)
        if watch.beats != beats:
            beats, since = watch.beats, now
        elif now - since > stuck_seconds:
            return False, interruption
