"""A session at the terminal: what comes in is printed, what it asks is put to the person."""

from __future__ import annotations

import sys

from hhd.base.text import visible
from hhd.cli.keyboard import Keyboard
from hhd.cli.paint import Paper
from hhd.cli.rendering import Rendering


class Foreground(Rendering):
    """Shows a session on `paper` (see `hhd.node.face.Face`); with `quiet`, only questions."""

    def __init__(self, *, quiet: bool = False) -> None:
        paper = Paper.of(sys.stderr if quiet else sys.stdout)
        self._keyboard = Keyboard(fd=0, paper=paper)
        super().__init__(paper, quiet=quiet, echoed=self._keyboard.terminal)

    def write(self, text: str) -> None:
        """A question, already safe to print."""
        self.paper.end_line()
        self.paper.write(text)

    def read(self, prompt: str) -> str | None:
        """A line typed after `prompt`."""
        self.paper.end_line()
        return self._keyboard.line(prompt)

    def listen(self, prompt: str, why: str) -> str | None:
        """The person's words to the session."""
        self.paper.end_line()
        if why not in ("next", "") or self._quiet:
            self.paper.line(visible(prompt))
        return self._keyboard.line("> ")

    def steering(self) -> list[str]:
        """What was typed meanwhile."""
        return self._keyboard.typed()
