"""One line that says how far something long is: in place on a terminal, nowhere else, and gone when it is over."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from hhd.cli.lines import cut
from hhd.cli.telling import size

AGAIN_SECONDS = 0.1
"""Between two of the same line: more often is flicker."""
RATE_SECONDS = 5.0
"""What a rate is of: less jumps, more lags behind."""
ASKED_SECONDS = 0.5
CELLS = 24


class Line:
    """A line at the end of a terminal; where `target` is none, or a dumb one, nothing is written."""

    def __init__(
        self, target: TextIO, *, now: Callable[[], float] = time.monotonic, environ: Mapping[str, str] | None = None
    ) -> None:
        env = os.environ if environ is None else environ
        self._target, self._now = target, now
        self.shows = target.isatty() and env.get("TERM", "dumb") != "dumb"
        self._text, self._at = "", float("-inf")
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Say `text` in place of what was said; cut to the terminal as wide as it is now, so that it never wraps."""
        with self._lock:
            if not self.shows or text == self._text or self._now() - self._at < AGAIN_SECONDS:
                return
            self._text, self._at = text, self._now()
            self._write(f"\r{cut(text, self._columns() - 1)}\x1b[K")

    def clear(self) -> None:
        """Take it away: what is written next begins a line."""
        with self._lock:
            if self._text:
                self._text = ""
                self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, UnicodeEncodeError):
            self._target.write(text)
            self._target.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._target.fileno()).columns or 80
        except (OSError, ValueError):
            return 80


class Rate:
    """Bytes a second, over the last seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, count: int) -> float:
        """Return how fast `count` grows; it grew to that now."""
        at = self._now()
        self._seen.append((at, count))
        while len(self._seen) > 2 and at - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        begin, before = self._seen[0]
        return max(0.0, (count - before) / (at - begin)) if at > begin else 0.0


def text(done: int, total: int, rate: float) -> str:
    """How much of how much went over, and how fast; `total`: 0 where that is not known."""
    speed = f", {size(int(rate))}/s" if rate else ""
    if total <= 0:
        return f"{size(done)}{speed}"
    full = CELLS * min(done, total) // total
    return f"[{'#' * full}{'.' * (CELLS - full)}] {size(done)} of {size(max(total, done))}{speed}"


@contextlib.contextmanager
def counting(*, silent: bool, target: TextIO | None = None) -> Iterator[None]:
    """Show on a terminal how far what is done within the block is, as far as it is counted there; `silent`: nothing."""
    if silent or not Line(sys.stderr if target is None else target).shows:
        yield
        return
    from hhd.base import passing

    with passing.watched() as far, beside(far.so_far, target, what=lambda: far.what):
        yield


@contextlib.contextmanager
def beside(
    ask: Callable[[], tuple[int, int]], target: TextIO | None = None, *, what: Callable[[], str] = str
) -> Iterator[Line]:
    """Show on a terminal, while something else is waited for, what `ask` says: bytes that went over, and of how many.

    It is asked in a thread of its own; who writes in between takes `Line.clear` first. What cannot be asked is not
    shown. `what`: a word for what is done, before it. Less than before is something else that began.
    """
    line = Line(sys.stderr if target is None else target)
    over = threading.Event()
    if not line.shows:
        yield line
        return
    thread = threading.Thread(target=_ask_on, args=(ask, what, line, over), daemon=True)
    thread.start()
    try:
        yield line
    finally:
        over.set()
        thread.join(ASKED_SECONDS)
        line.clear()


def _ask_on(ask: Callable[[], tuple[int, int]], what: Callable[[], str], line: Line, over: threading.Event) -> None:
    from hhd.base.errors import UserError

    rate, before = Rate(), -1
    with contextlib.suppress(UserError, OSError):
        while not over.wait(ASKED_SECONDS):
            done, total = ask()
            if done < before:
                rate = Rate()
            speed = rate.of(done)
            if before >= 0 and done > before and not over.is_set():  # Nothing is said of what is over at once.
                line.show(f"{what()} {text(done, total, speed)}".lstrip())
            before = done
