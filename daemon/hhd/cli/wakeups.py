"""Signals as something to wait for beside a socket and a keyboard."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType, TracebackType

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class Wakeups:
    """While it lasts, signals are noted instead of done; the descriptor is readable once there are some.

    A second Ctrl-C is a KeyboardInterrupt all the same: whatever hangs, a person gets away. A hang-up that is ignored
    stays so. For the main thread only.
    """

    def __enter__(self) -> Wakeups:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._interrupts = 0
        self._woken = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        chosen = [n for n in CAUGHT if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._come) for number in chosen}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Readable once a signal came."""
        return self._read

    def taken(self) -> list[int]:
        """The signals that came since, in order."""
        with contextlib.suppress(BlockingIOError):
            return list(os.read(self._read, 4096))
        return []

    def stop(self) -> None:
        """Stop this process as Ctrl-Z does; returns once it is let go on."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._come)

    def _come(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                raise KeyboardInterrupt
