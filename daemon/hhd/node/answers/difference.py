"""Two heads of a session compared."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device
from hhd.node.folding import Said


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a difference: a head, and what was done past the place where the two part.

    `files_from`: as of a head.
    """

    head: str
    device: Device
    at_ms: int
    token: int | None
    model_calls: int
    calls: int
    files: tuple[str, ...]
    files_from: str
    lines: tuple[Said, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Two heads from where they part: `fork` is the checkpoint (None: nothing in common), `model_calls`: how many
    there were before it (None: not known)."""

    session: str
    title: str
    fork: str | None
    model_calls: int | None
    one: Side
    other: Side
