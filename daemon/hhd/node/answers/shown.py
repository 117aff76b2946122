"""A session and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A session and where it stands; `head` is the one that is shown, None before the first checkpoint."""

    session: str
    title: str
    program: str
    state: str
    waiting: str
    owner: Device
    token: int | None
    head: str | None
    heads: int
    archived: bool
    at_ms: int
    turns: int
    folder: str
    suspects: int = 0
    """Places that look as if they held a credential."""
    handed: Device | None = None
    """The other device of the last handoff that left something otherwise, which `notes` say."""
    notes: tuple[str, ...] = ()
