"""A line that a person types, edited key by key: what a terminal sends in, whole lines out.

The kernel edits lines too, but shows nobody else what is being typed before it is done. The keys are those that it has,
and the arrows that people reach for.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field

LINE_CHARS_MAX = 1024 * 1024
"""Of one line; a paste without line ends may be long. What is more is not taken."""

_ESCAPE_CHARS_MAX = 32
"""Of what a key sends; more is none."""

_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\[O])")


@dataclass(kw_only=True)
class Editor:
    """The line so far: `text`, and before which of its characters the cursor stands."""

    text: str = ""
    cursor: int = 0
    _pending: str = ""
    """The begin of what a key sends."""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, raw: bytes) -> list[str | None]:
        """Take what was typed; the lines that it ended, None for the end of input (Ctrl-D on an empty line)."""
        typed = self._pending + self._decoder.decode(raw)
        self._pending = ""
        ended: list[str | None] = []
        at = 0
        while at < len(typed):
            if plain := _PLAIN.match(typed, at):
                self._insert(plain.group())
                at = plain.end()
            elif typed[at] == "\x1b":
                key = _ESCAPE.match(typed, at)
                if key is None and len(typed) - at < _ESCAPE_CHARS_MAX:
                    self._pending = typed[at:]
                    return ended
                self._move(key.group() if key else "")
                at = key.end() if key else at + 1
            else:
                self._control(typed[at], ended)
                at += 1
        return ended

    def clear(self) -> None:
        """Nothing is typed."""
        self.text, self.cursor = "", 0

    def _insert(self, piece: str) -> None:
        piece = piece[: max(0, LINE_CHARS_MAX - len(self.text))]
        self.text = self.text[: self.cursor] + piece + self.text[self.cursor :]
        self.cursor += len(piece)

    def _control(self, char: str, ended: list[str | None]) -> None:
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        match char:
            case "\r" | "\n":
                ended.append(self.text)
                self.clear()
            case "\x04" if not self.text:
                ended.append(None)
            case "\x7f" | "\b":
                self.text, self.cursor = before[:-1] + after, max(0, self.cursor - 1)
            case "\x15":  # Ctrl-U
                self.text, self.cursor = after, 0
            case "\x17":  # Ctrl-W
                kept = re.sub(r"\S*\s*\Z", "", before)
                self.text, self.cursor = kept + after, len(kept)
            case "\x0b":  # Ctrl-K
                self.text = before
            case "\x01":  # Ctrl-A
                self.cursor = 0
            case "\x05":  # Ctrl-E
                self.cursor = len(self.text)
            case "\t":
                self._insert("\t")

    def _move(self, key: str) -> None:
        match key:
            case "\x1b[D" | "\x1bOD":
                self.cursor = max(0, self.cursor - 1)
            case "\x1b[C" | "\x1bOC":
                self.cursor = min(len(self.text), self.cursor + 1)
            case "\x1b[H" | "\x1bOH" | "\x1b[1~":
                self.cursor = 0
            case "\x1b[F" | "\x1bOF" | "\x1b[4~":
                self.cursor = len(self.text)
            case "\x1b[3~":
                self.text = self.text[: self.cursor] + self.text[self.cursor + 1 :]
