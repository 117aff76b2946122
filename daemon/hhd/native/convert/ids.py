"""Call ids, mapped one to one from source to target."""

from __future__ import annotations

import re

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


class CallIds:
    """Keeps an id where the target takes it and it is new, else makes one; a result follows its own call."""

    def __init__(self, legal: re.Pattern[str]) -> None:
        self._legal = legal
        self._used: set[str] = set()
        self._open: dict[str, str] = {}
        self._by_provider: set[str] = set()

    def assign(self, source: str) -> str:
        """The id that the call `source` has in the target."""
        chosen = source
        if source in self._used or not self._legal.fullmatch(source):
            base = _ILLEGAL.sub("_", source)[:56] or "call"
            chosen, n = base, 1
            while chosen in self._used or not chosen:
                n += 1
                chosen = f"{base}_{n}"
        self._used.add(chosen)
        self._open[source] = chosen
        return chosen

    def reserve(self, id: str) -> None:
        """Take `id` out of use."""
        self._used.add(id)

    def answer(self, source: str) -> str | None:
        """The id that the call answered by a result has in the target; None if no call of that id waits."""
        return self._open.pop(source, None)

    def run_by_provider(self, source: str) -> None:
        """Remember that the provider ran the call."""
        self._by_provider.add(source)

    def was_run_by_provider(self, source: str) -> bool:
        """Whether the provider ran the call."""
        return source in self._by_provider
