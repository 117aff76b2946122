"""How the daemon is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Health:
    """`state` is "ok", or "warn" where `notes`, sentences for the person, tell of something to look at."""

    state: str
    notes: tuple[str, ...]
    hhd: str
    process: int
    since_ms: int


@dataclass(frozen=True, kw_only=True)
class Reloaded:
    """The configuration was read anew; `applies`: a sentence that says to what."""

    applies: str
