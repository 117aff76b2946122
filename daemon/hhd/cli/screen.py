"""A terminal on which words come in above the line that is being typed.

The typed line takes one row, the last: of a long one the part around the cursor is shown. So it can be taken away and
drawn again whatever else is printed, also in the middle of a line of the model's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

from hhd.base.text import visible
from hhd.cli.lines import columns, cut
from hhd.cli.paint import Ink, Paper

ELSEWHERE_CHARS_MIN = 12
"""Room for what is typed elsewhere; with less it is left out."""

_TAB = 8


@dataclass(frozen=True, kw_only=True)
class Row:
    """What stands in the last row: a prompt, what was typed, where the cursor is in it, what is typed elsewhere.

    Only the prompt is safe to print as it is.
    """

    prompt: str = ""
    text: str = ""
    cursor: int = 0
    elsewhere: str = ""

    def __bool__(self) -> bool:
        return bool(self.prompt or self.text or self.elsewhere)


@dataclass(kw_only=True)
class Screen(Paper):
    """Paper with a row below it. `row` is what belongs there; `draw` puts it there, and writing takes it away."""

    row: Row = Row()
    _drawn: bool = False
    _below: bool = False
    """Whether the row is one below an unfinished line."""
    _column: int = 0

    def write(self, text: str, ink: Ink = Ink.PLAIN) -> None:
        """As `Paper.write`, where the last text ended."""
        if not text:
            return
        self.erase()
        super().write(text, ink)
        self._column = _after(self._column, text)

    def draw(self) -> None:
        """Show the row, if there is anything in it."""
        self.erase()
        if not self.row:
            return
        width = terminal_columns(self.target)
        line, back = drawn(self.row, width)
        self._below = not self.at_line_start
        faint = f"\x1b[{Ink.FAINT.value}m{line[2]}\x1b[0m" if self.colour and line[2] else line[2]
        bold = f"\x1b[{Ink.PERSON.value}m{line[0]}\x1b[0m" if self.colour and line[0] else line[0]
        self._put(("\n" if self._below else "") + bold + line[1] + faint + (f"\x1b[{back}D" if back else ""))
        self._drawn = True

    def erase(self) -> None:
        """Take the row away; the cursor is where the next text belongs."""
        if not self._drawn:
            return
        self._drawn = False
        way = "\r\x1b[K"
        width = terminal_columns(self.target)
        if self._below and (self._column % width or not self._column):
            way += "\x1b[A"
            way += f"\x1b[{self._column % width}C" if self._column % width else ""
        self._put(way)

    def _put(self, raw: str) -> None:
        try:
            self.target.write(raw)
        except UnicodeEncodeError:
            encoding = self.target.encoding or "ascii"
            self.target.write(raw.encode(encoding, "backslashreplace").decode(encoding))
        self.target.flush()


def drawn(row: Row, width: int) -> tuple[tuple[str, str, str], int]:
    """The row's prompt, text and rest for a terminal of `width` columns, and how far the cursor goes back from its end.

    Together they fit on it, with a column to spare, so that the terminal does not begin a next one.
    """
    room = max(1, width - 1)
    prompt = cut(row.prompt, room // 2) if columns(row.prompt) > room // 2 else row.prompt
    room -= columns(prompt)
    before, after = _one_row(row.text[: row.cursor]), _one_row(row.text[row.cursor :])
    if columns(before) > room - 1:
        before = "…" + _last(before, max(0, room - 2))
    after = cut(after, max(0, room - columns(before)))
    room -= columns(before) + columns(after)
    rest = ""
    if row.elsewhere and room >= ELSEWHERE_CHARS_MIN:
        gap = "  " if before or after else ""
        rest = f"{gap}({cut(_one_row(row.elsewhere), room - 2 - len(gap))})"
    return (prompt, before + after, rest), columns(after) + columns(rest)


def terminal_columns(target: TextIO) -> int:
    """The columns of the terminal that `target` is."""
    try:
        return os.get_terminal_size(target.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _one_row(text: str) -> str:
    return visible(text, one_line=True)


def _last(text: str, room: int) -> str:
    """The end of `text` that fits."""
    kept = text[-room:] if room else ""
    while columns(kept) > room:
        kept = kept[1:]
    return kept


def _after(column: int, text: str) -> int:
    """In which column the cursor stands after `text`, counted through all rows that one line takes."""
    line = text.rpartition("\n")[2]
    column = 0 if "\n" in text else column
    for number, piece in enumerate(line.split("\t")):
        if number:
            column += _TAB - column % _TAB
        column += columns(piece)
    return column
