"""A session at the terminal: what comes in is printed, what it asks is put to the person."""

from __future__ import annotations

import sys

from hhd.base.text import visible
from hhd.cli.conversation import Conversation
from hhd.cli.keyboard import Keyboard
from hhd.cli.paint import Ink, Paper


class Foreground:
    """Shows a session on `paper` (see `hhd.node.face.Face`); with `quiet`, only questions."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.paper = Paper.of(sys.stderr if quiet else sys.stdout)
        self._quiet = quiet
        self._keyboard = Keyboard(fd=0, paper=self.paper)
        self._conversation = Conversation(paper=self.paper)
        self._rest = b""

    def text(self, piece: str) -> None:
        """The model's words, as they come."""
        if not self._quiet:
            self._conversation.streamed = True
            self.paper.write(visible(piece))

    def notice(self, sentence: str) -> None:
        """A line of hhd's own."""
        if not self._quiet:
            self.paper.line(f"({visible(sentence, one_line=True)})", Ink.FAINT)

    def emitted(self, piece: bytes) -> None:
        """Transcript, shown line by line."""
        if self._quiet:
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b'{"event":"turn"'):
                self._conversation.streamed = False
            if self._keyboard.terminal and line.startswith(b'{"event":"user","from":"input"'):
                continue
            self._conversation.show(line)

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
