"""When a running session is checkpointed: at every effect border and pause, in a busy loop once a second at most.

A crash of a busy guest costs no more than computing again what came after its last checkpoint. So where a checkpoint
is expensive, because the guest rewrites much memory, it comes less often: it is to take a small share of the time.
"""

from __future__ import annotations

BUSY_SECONDS = 1.0
"""How long a guest may compute between checkpoints that cost little; one of few pages takes some milliseconds."""

BUSY_SECONDS_MAX = 30.0
"""... and between expensive ones: what a crash may cost stays within what a person waits for."""

SHARE = 0.03
"""The share of the time that checkpoints of a busy guest may take."""


class Pace:
    """How long one guest may compute until its next checkpoint is due."""

    def __init__(self) -> None:
        self.seconds = BUSY_SECONDS

    def cost(self, seconds: float) -> None:
        """The checkpoint just made of a busy guest took this long."""
        self.seconds = min(max(BUSY_SECONDS, seconds / SHARE), BUSY_SECONDS_MAX)
