"""A terminal for tests: enough of one to see what a person sees."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Vt:
    """Rows of `width` columns, without a bottom; each character takes one column."""

    def __init__(self, width: int = 80) -> None:
        self.width, self.row, self.column, self.rows = width, 0, 0, [[]]
        self.wraps = False
        """The last column was written, and the next character begins a row."""

    def feed(self, raw: str) -> Vt:
        for code, final, char in _TOKEN.findall(raw.replace("\r\n", "\n")):
            if final:
                self._escape(final, int(code) if code.isdigit() else 1)
            elif char == "\n":
                self._to(self.row + 1, 0)
            elif char == "\r":
                self._to(self.row, 0)
            elif char == "\t":
                self._to(self.row, min(self.width - 1, self.column + 8 - self.column % 8))
            else:
                assert char >= " " and char != "\x7f", repr(char)
                self._put(char)
        return self

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]

    def _put(self, char: str) -> None:
        if self.wraps:
            self._to(self.row + 1, 0)
        line = self.rows[self.row]
        line += " " * (self.column - len(line))
        line[self.column : self.column + 1] = [char]
        self.wraps = self.column + 1 == self.width
        self.column = min(self.column + 1, self.width - 1)

    def _to(self, row: int, column: int) -> None:
        self.row, self.column, self.wraps = row, column, False
        while len(self.rows) <= row:
            self.rows.append([])

    def _escape(self, final: str, count: int) -> None:
        match final:
            case "K":
                del self.rows[self.row][self.column :]
            case "A":
                self._to(max(0, self.row - count), self.column)
            case "C":
                self._to(self.row, min(self.width - 1, self.column + count))
            case "D":
                self._to(self.row, max(0, self.column - count))
            case "m":
                pass
            case _:
                raise AssertionError(f"no such escape: {final}")
