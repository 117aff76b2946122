"""What removing a session destroys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What removing a session destroys, or destroyed.

    `heads`: ids of its heads. `bytes`: of content that it uses; what forks share stays. `everywhere`: on the other
    devices of this person too, when they hear of it. `warnings`: what else it means, in sentences.
    """

    session: str
    title: str
    heads: tuple[str, ...]
    checkpoints: int
    turns: int
    bytes: int
    everywhere: bool
    warnings: tuple[str, ...] = ()
