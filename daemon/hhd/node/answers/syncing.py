"""How it stands with sync, as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One linked device: bytes of messages since the daemon began; sessions that it has not as they are here; content
    that it was asked for; why it takes none, empty if it does."""

    device: str
    name: str
    sent: int
    received: int
    behind: int
    waiting: int
    holding: str


@dataclass(frozen=True, kw_only=True)
class Held:
    """A session that waits for a person's word before it goes to a device the first time."""

    session: str
    device: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How far one device is with one session: its newest checkpoint, None if none is known; whether it has all."""

    device: str
    name: str
    checkpoint: str | None
    level: bool
    linked: bool


@dataclass(frozen=True, kw_only=True)
class Syncings:
    """All of it. `paused`, `frugal`, `holding`: why content is not taken, coalesced, or cannot be taken; empty: no."""

    paused: str
    frugal: str
    holding: str
    wanted: int
    flows: tuple[Flow, ...]
    held: tuple[Held, ...]
    trouble: str


@dataclass(frozen=True, kw_only=True)
class FreshnessOf:
    """How far other devices are with one session."""

    session: str
    devices: tuple[Freshness, ...]


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What was wished: of one session, or ("") of every one, which are `sessions` now."""

    session: str
    device: str
    name: str
    sessions: int
