"""The person at standard input: lines that are waited for, and lines typed while something else went on.

Read by descriptor, without buffers of Python's in between, so that what was typed ahead can be told from what was not.
Anything may stand there, a pipe too: whoever holds standard input is the person, and its end means that nobody is
there.
"""

from __future__ import annotations

import os
import select
from dataclasses import dataclass, field

from hhd.base.text import visible
from hhd.cli.paint import Ink, Paper

READ_BYTES = 65536
LINE_BYTES_MAX = 1024 * 1024
"""One line of a person's; a paste without line ends may be long."""


@dataclass(kw_only=True)
class Keyboard:
    """Lines from the descriptor `fd`; prompts go to `paper`."""

    fd: int
    paper: Paper
    _rest: bytes = b""
    _ended: bool = field(default=False)

    @property
    def terminal(self) -> bool:
        """Whether a person types here, rather than a program."""
        return os.isatty(self.fd)

    def line(self, prompt: str) -> str | None:
        """Show `prompt` and wait for a line; None at the end of input. KeyboardInterrupt passes through."""
        self.paper.write(prompt, Ink.PERSON)
        while b"\n" not in self._rest and not self._ended and len(self._rest) < LINE_BYTES_MAX:
            self._read()
        if not self._rest and self._ended:
            self.paper.end_line()
            return None
        line = self._take()
        if not self.terminal:  # A terminal shows what is typed; elsewhere the record should show it too.
            self.paper.write(f"{visible(line)}\n")
        return line

    def typed(self) -> list[str]:
        """Whole lines typed meanwhile; at a terminal only, since a pipe's lines answer questions to come."""
        if not self.terminal:
            return []
        while not self._ended and select.select([self.fd], [], [], 0)[0]:
            self._read()
        lines = []
        while b"\n" in self._rest:
            lines.append(self._take())
        return [line for line in lines if line.strip()]

    def _read(self) -> None:
        try:
            piece = os.read(self.fd, READ_BYTES)
        except OSError:  # A terminal that was hung up.
            piece = b""
        self._rest += piece
        self._ended = not piece

    def _take(self) -> str:
        raw, _, self._rest = self._rest.partition(b"\n")
        line = raw.removesuffix(b"\r").decode("utf-8", "replace")
        if self.terminal:
            self.paper.at_line_start = True
        return line
