"""A person's wish that what runs now should end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator


class Cancel:
    """Set once, from any thread or signal handler; a descriptor becomes readable, so that it can be waited for."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._set = False

    @property
    def is_set(self) -> bool:
        """Whether the person asked for an end."""
        return self._set

    def set(self) -> None:
        """Ask for an end; repeating it changes nothing."""
        self._set = True
        with contextlib.suppress(OSError):
            os.write(self._write, b"x")

    def fileno(self) -> int:
        """A descriptor that is readable once this is set."""
        return self._read

    @contextlib.contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Within the block Ctrl-C sets this instead of raising, so that what was begun is also recorded as ended.

        A handler of the caller's own stays: whoever has one turns Ctrl-C into a wish already.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, lambda *_: self.set())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def close(self) -> None:
        """Give both descriptors back."""
        for fd in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(fd)


class Interrupted(Exception):
    """The act ended early because the person asked, and it may be done again from the start."""
