"""Patterns for paths: `*` and `?` stay within a component, `**` crosses folders, `{a,b}` offers choices."""

from __future__ import annotations

import re
import unicodedata
from fnmatch import translate
from functools import lru_cache

_CHOICES_MAX = 64
"""Patterns that one pattern with braces may stand for."""


class GlobRefused(Exception):
    """A pattern that means nothing; the message is one sentence."""


class Glob:
    """One pattern, matched against the components of a path; matching takes time linear in their product."""

    def __init__(self, pattern: str) -> None:
        """Raises GlobRefused."""
        if pattern.startswith("/") or ".." in pattern.split("/") or "\0" in pattern:
            raise GlobRefused("A pattern is relative and does not go up: no leading '/', no '..'.")
        self._ways = [_components(way) for way in _choices(pattern)]
        self.deep = any("**" in way for way in self._ways)

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether the path of these components fits."""
        return any(_fits(way, parts, whole=True) for way in self._ways)

    def may_lead_to(self, parts: tuple[str, ...]) -> bool:
        """Whether something below the folder of these components can fit."""
        return any(_fits(way, parts, whole=False) for way in self._ways)


def folded(text: str) -> str:
    """`text` as file systems compare names that make no difference of case or Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _components(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if not parts:
        raise GlobRefused("The pattern is empty.")
    return parts


def _choices(pattern: str) -> list[str]:
    done: list[str] = []
    todo = [pattern]
    while todo:
        way = todo.pop()
        if len(done) + len(todo) > _CHOICES_MAX:
            raise GlobRefused(f"The pattern stands for more than {_CHOICES_MAX} patterns.")
        found = re.search(r"\{([^{}]*,[^{}]*)\}", way)
        if found is None:
            done.append(way)
        else:
            todo += [way[: found.start()] + choice + way[found.end() :] for choice in found[1].split(",")]
    return done


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...], *, whole: bool) -> bool:
    """Advance a set of positions in `pattern`, one component at a time (`**` stays, or is passed over)."""
    places = _passing({0}, pattern)
    for part in parts:
        after = {place for place in places if place < len(pattern) and pattern[place] == "**"}
        after |= {
            place + 1
            for place in places
            if place < len(pattern) and pattern[place] != "**" and _component(pattern[place]).match(part)
        }
        places = _passing(after, pattern)
        if not places:
            return False
    return len(pattern) in places if whole else any(place < len(pattern) for place in places)


def _passing(places: set[int], pattern: tuple[str, ...]) -> set[int]:
    found = set(places)
    for place in sorted(places):
        while place < len(pattern) and pattern[place] == "**":
            place += 1
            found.add(place)
    return found


@lru_cache(maxsize=512)
def _component(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(translate(pattern))
    except re.error as error:
        raise GlobRefused(f"The pattern {pattern!r} has no meaning ({error}).") from None
