"""How it stands with sync, as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limited:
    """A session of which a device takes no more content, and why."""

    session: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One other device that is to have sessions.

    `sent`, `received`: bytes of messages since the daemon began, None where none runs. `behind`: sessions that it has
    not as they are here; of them it lacks so many `checkpoints`, which brought so many `bytes` of sealed content (with
    `at_least`: or more). What is not linked lacks what it lacked when it was heard last, and what came since.
    `waiting`: content that it was asked for. `holding`: why it takes none, empty if it does; `limits`: of single
    sessions.
    """

    device: str
    name: str
    linked: bool
    sent: int | None
    received: int | None
    behind: int
    checkpoints: int
    bytes: int
    at_least: bool
    waiting: int
    holding: str
    limits: tuple[Limited, ...]


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
