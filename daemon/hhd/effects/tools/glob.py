"""Finds files by the pattern of their path."""

from __future__ import annotations

from hhd.effects.limits import PATTERN_CHARS_MAX, SEARCH_PATHS_MAX
from hhd.effects.tools.search import search
from hhd.effects.tools.tool import Context, Input, Reply, Tool, by_place, failed


class GlobInput(Input, frozen=True, kw_only=True):
    """`pattern` is relative to `path`, which is relative to the workspace."""

    pattern: str
    path: str | None = None


def _act(asked: GlobInput, context: Context) -> Reply:
    if len(asked.pattern) > PATTERN_CHARS_MAX:
        return failed(f"The pattern has more than {PATTERN_CHARS_MAX} characters.")
    begin = context.place(asked.path or ".")
    request = {"pattern": asked.pattern, "limit": SEARCH_PATHS_MAX}
    return search("glob", begin, request, context, nothing="No path fits.")


GLOB: Tool[GlobInput] = Tool(
    name="glob", input=GlobInput, repeatable=True, changes=False, subject=by_place("glob"), act=_act
)  # fmt: skip
