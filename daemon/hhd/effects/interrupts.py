"""Ctrl-C, and being told to end, as a wish: the session pauses at the next moment where nothing is lost.

Within `raised` the wish is also a KeyboardInterrupt: for waits that can simply be left, for a reply or for words.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns signals into calls of `wish`, while `caught`."""

    def __init__(self, wish: Callable[[], None]) -> None:
        self.wished = False
        self._wish = wish
        self._raise = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch the signals within the block; elsewhere than in the main thread nothing is caught.

        A hang-up that is ignored stays so: that is what `nohup` is for.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        chosen = [n for n in SIGNALS if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._come) for number in chosen}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Within the block, raise KeyboardInterrupt when a signal comes, or came before."""
        self._raise = True
        try:
            if self.wished:
                raise KeyboardInterrupt
            yield
        finally:
            self._raise = False

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.wished = True
        self._wish()
        if self._raise:
            raise KeyboardInterrupt
