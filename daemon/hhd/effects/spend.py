"""What a session has spent on model calls, held against the limits of this device's configuration.

Calls are counted by the journal, so they survive a move and a guest cannot talk them down. Token counts come from the
replies; of the calls made elsewhere the transcript tells them, which a guest writes: good for a bill, not for a limit,
so the count of calls is what stops a loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from hhd.base.config import ModelConfig
from hhd.effects.model import ModelUnavailable

TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True, kw_only=True)
class Spend:
    """Model calls begun and tokens counted."""

    calls: int = 0
    tokens: int = 0

    def __add__(self, other: Spend) -> Spend:
        return Spend(calls=self.calls + other.calls, tokens=self.tokens + other.tokens)

    def __str__(self) -> str:
        return f"{self.calls} model call{'s' * (self.calls != 1)} and {self.tokens} tokens"


@dataclass(kw_only=True)
class Purse:
    """What may still be spent. A person who says yes allows as much again, for this run of hhd only."""

    config: ModelConfig
    spent: Spend
    _allowed: Spend = field(init=False)

    def __post_init__(self) -> None:
        self._allowed = Spend(calls=self.config.calls_max, tokens=self.config.tokens_max)

    def empty(self) -> str | None:
        """Why no further call may be made unasked, as a sentence; None if one may."""
        if self.spent.calls >= self._allowed.calls:
            return f"This session has made {self.spent.calls} model calls, as many as calls_max allows."
        if self.spent.tokens >= self._allowed.tokens:
            return f"This session has used {self.spent.tokens} tokens, as many as tokens_max allows."
        return None

    def refill(self) -> None:
        """The person allows as much again."""
        self._allowed = self.spent + Spend(calls=self.config.calls_max, tokens=self.config.tokens_max)

    def refuse(self, sentence: str) -> ModelUnavailable:
        """The error that pauses the session."""
        return ModelUnavailable(
            f"{sentence} Raise it under [model] of config.toml, or go on at a terminal and say yes."
        )

    def call(self) -> None:
        """A model call begins."""
        self.spent += Spend(calls=1)

    def reply(self, raw: bytes) -> None:
        """A reply came."""
        self.spent += Spend(tokens=tokens_of_reply(raw))


def tokens_of_reply(raw: bytes) -> int:
    """The tokens a reply counts, none for what counts none."""
    try:
        reply = json.loads(raw)
    except (ValueError, RecursionError):
        return 0
    return _sum(reply.get("usage")) if isinstance(reply, dict) else 0


def tokens_of_transcript(lines: Iterable[bytes]) -> int:
    """The tokens that a transcript's `usage` lines tell of."""
    total = 0
    for line in lines:
        if line.startswith(b'{"event":"usage"'):
            try:
                total += _sum(json.loads(line))
            except (ValueError, RecursionError):
                continue
    return total


def _sum(usage: object) -> int:
    if not isinstance(usage, dict):
        return 0
    return sum(count for name in TOKEN_FIELDS if type(count := usage.get(name)) is int and 0 <= count < 1 << 53)
