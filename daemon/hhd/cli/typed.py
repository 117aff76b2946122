"""A path as one would type it again."""

from __future__ import annotations

import shlex
from pathlib import Path

from hhd.base.text import visible


def typed(path: Path) -> str:
    """Return `path` as a word of a command line, safe to print."""
    words = str(path)
    return shlex.quote(visible(f"./{words}" if words.startswith("-") else words, one_line=True))
