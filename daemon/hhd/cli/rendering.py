"""A session as a person sees it: the model's words as they come, its transcript, lines of hhd's own."""

from __future__ import annotations

from hhd.base.text import visible
from hhd.cli.conversation import Conversation
from hhd.cli.paint import Ink, Paper


class Rendering:
    """Shows a session on `paper`; with `quiet`, nothing of it. `echoed`: words typed here are on the screen already."""

    def __init__(self, paper: Paper, *, quiet: bool = False, echoed: bool = False) -> None:
        self.paper, self._quiet, self._echoed = paper, quiet, echoed
        self._conversation = Conversation(paper=paper)
        self._rest = b""

    def text(self, piece: str) -> None:
        """The model's words, as they come."""
        if not self._quiet:
            self._conversation.speak(piece)

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
            if not (self._echoed and line.startswith(b'{"event":"user","from":"input"')):
                self._conversation.show(line)
