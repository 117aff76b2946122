"""Finds lines by a regular expression.

By Python's `re` on every device, not by ripgrep where that is installed: the two differ in what an expression means
and in what they pass over, and a session that moved would get another answer to the same question.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hhd.effects.limits import PATTERN_CHARS_MAX, SEARCH_FILE_BYTES_MAX, SEARCH_LINE_CHARS_MAX, SEARCH_LINES_DEFAULT
from hhd.effects.tools.search import search
from hhd.effects.tools.tool import Context, Input, Reply, Tool, by_place, failed

_LINES_MAX = 10_000
"""Lines of one grep: the output's bound is reached before."""


class GrepInput(Input, frozen=True, kw_only=True):
    """`path`: a folder or one file; `glob`: names of files, or paths if it contains a slash; `limit`: lines."""

    pattern: str
    path: str | None = None
    glob: str | None = None
    ignore_case: bool | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


def _act(asked: GrepInput, context: Context) -> Reply:
    if max(len(asked.pattern), len(asked.glob or "")) > PATTERN_CHARS_MAX:
        return failed(f"A pattern has more than {PATTERN_CHARS_MAX} characters.")
    begin = context.place(asked.path or ".")
    request = {
        "pattern": asked.pattern,
        "glob": asked.glob or "",
        "ignore_case": bool(asked.ignore_case),
        "limit": min(asked.limit or SEARCH_LINES_DEFAULT, _LINES_MAX),
        "file_bytes_max": SEARCH_FILE_BYTES_MAX,
        "chars_max": SEARCH_LINE_CHARS_MAX,
    }
    return search("grep", begin, request, context, nothing="No line matches.")


GREP: Tool[GrepInput] = Tool(
    name="grep", input=GrepInput, repeatable=True, changes=False, subject=by_place("grep"), act=_act
)  # fmt: skip
