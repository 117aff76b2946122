"""Who sits at standard input, for a command that waits for other things too: lines as they are typed, or none.

At a terminal that can be drawn on, keys are read one by one, so that others can watch the line grow; at a poorer one
the kernel edits. A pipe is read only while something is asked: its lines answer questions to come.
"""

from __future__ import annotations

import contextlib
import os
import termios
from collections import deque
from typing import Any

from hhd.cli.editor import Editor
from hhd.cli.keyboard import LINE_BYTES_MAX, READ_BYTES

_LFLAG, _CC = 3, 6
"""Where a terminal's local modes and its characters stand in what `tcgetattr` returns."""


class Hand:
    """Lines from the descriptor `fd`. `keys`: take them one by one, where it is a terminal.

    As a context, it gives the terminal back as it was.
    """

    def __init__(self, fd: int, *, keys: bool) -> None:
        self.fd, self.terminal = fd, os.isatty(fd)
        self.editor = Editor() if keys and self.terminal else None
        self.ended = False
        """Nobody is there any more."""
        self._lines: deque[str | None] = deque()
        self._rest = b""
        self._before: list[Any] | None = None

    def __enter__(self) -> Hand:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def take(self) -> None:
        """Let keys come one by one, unseen; signals of Ctrl-C and Ctrl-Z stay."""
        if self.editor is None:
            return
        with contextlib.suppress(termios.error):  # A terminal that was hung up.
            self._before = termios.tcgetattr(self.fd)
            mode = termios.tcgetattr(self.fd)
            mode[_LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
            mode[_CC][termios.VMIN], mode[_CC][termios.VTIME] = 1, 0
            termios.tcsetattr(self.fd, termios.TCSADRAIN, mode)

    def give_back(self) -> None:
        """Let the terminal be as it was."""
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)
            self._before = None

    def fileno(self) -> int:
        """What to wait for, where it `waits`."""
        return self.fd

    def waits(self, *, asked: bool) -> bool:
        """Whether to wait for `fd` now; `asked`: a line would be used."""
        return not self.ended and (self.terminal or (asked and not self._lines))

    def read(self) -> None:
        """Take what came."""
        try:
            piece = os.read(self.fd, READ_BYTES)
        except OSError:  # A terminal that was hung up, or whose line is another's.
            piece = b""
        if self.editor is not None and piece:
            self._lines += self.editor.feed(piece)
            return
        self._rest += piece
        *whole, self._rest = self._rest.split(b"\n")
        if not piece or len(self._rest) > LINE_BYTES_MAX:
            whole, self._rest = [*whole, *([self._rest] if self._rest else [])], b""
        self._lines += [line.removesuffix(b"\r").decode("utf-8", "replace") for line in whole]
        if not piece:
            self._lines.append(None)
            self.ended = self.editor is not None or not self.terminal

    def line(self) -> str | None:
        """The next line, None for the end of input; only where there is one (`has_line`)."""
        return self._lines.popleft()

    @property
    def has_line(self) -> bool:
        """Whether a line came that was not taken."""
        return bool(self._lines)
