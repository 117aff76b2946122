"""How far the clocks of linked devices are from the one here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The clock of another device that is linked now.

    `ahead_ms`: by how much it is ahead of the one here, at least; less than 0 where it is behind. None where that
    device does not say, since its hhd is older or too slow.
    """

    device: str
    name: str
    ahead_ms: int | None
