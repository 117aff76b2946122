"""Where words go on a terminal: colours only where they are wanted, and never a control code in a pipe."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TextIO


class Ink(enum.Enum):
    """What a piece of text is; the value is its SGR code."""

    PLAIN = ""
    PERSON = "1"
    FAINT = "2"
    CALL = "36"
    ADDED = "32"
    REMOVED = "31"
    ALARM = "1;31"


@dataclass(kw_only=True)
class Paper:
    """Something to print on. Text is taken as it is: whoever writes text of unknown origin makes it visible first."""

    target: TextIO
    colour: bool
    at_line_start: bool = True

    @classmethod
    def of(cls, target: TextIO, environ: Mapping[str, str] | None = None) -> Self:
        """Paper for `target`: coloured if it is a terminal, unless NO_COLOR is set or the terminal is dumb."""
        env = os.environ if environ is None else environ
        plain = bool(env.get("NO_COLOR")) or env.get("TERM", "dumb") == "dumb" or not target.isatty()
        return cls(target=target, colour=not plain)

    def write(self, text: str, ink: Ink = Ink.PLAIN) -> None:
        """Write `text` where the last one ended."""
        if not text:
            return
        inked = f"\x1b[{ink.value}m{text}\x1b[0m" if self.colour and ink.value else text
        try:
            self.target.write(inked)
        except UnicodeEncodeError:
            encoding = self.target.encoding or "ascii"
            self.target.write(inked.encode(encoding, "backslashreplace").decode(encoding))
        self.target.flush()
        self.at_line_start = text.endswith("\n")

    def line(self, text: str = "", ink: Ink = Ink.PLAIN) -> None:
        """Write `text` as a line of its own."""
        self.end_line()
        if text:
            self.write(text, ink)
        self.write("\n")

    def end_line(self) -> None:
        """Go to the start of a line, if not there."""
        if not self.at_line_start:
            self.write("\n")
