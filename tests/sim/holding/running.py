"""The worlds of fencing and holding, and what has to happen in some of them."""

from __future__ import annotations

from tests.sim.seeds import WIDE
from tests.sim.world import World

REAL_EVERY = 97
"""Every so many worlds sign really: slow, and enough to show that the cheap ids hide nothing."""

REQUIRED = (
    "fork",
    "takeover",
    "tie",
    "release in flight",
    "revocation",
    "mutual revocation",
    "restore",
    "wake alone",
    "uncertain effect",
    "already taken",
    "closing",
    "crash while an effect ran",
    "death",
    "evidence",
    "held",
    "message lost",
    "number went back by a revocation",
    "owner revoked",
    "partition",
    "refused: other-request",
    "refused: rolled-back",
    "refused: split",
    "refused: stale",
    "sealed",
    "second run: a person asked for it",
    "settled",
    "takeover of a release in flight",
    "unsynced writes lost",
    "removal",
    "removed",
    "newer work outlives a removal",
    "content comes later",
    "refused: head-not-here",
    "refused: removed",
)
ISSUE = REQUIRED[:9]
"""What each run must have met, however short."""
RARE = frozenset(REQUIRED[9:])


def make(seed: int) -> World:
    return World(seed, real=seed % REAL_EVERY == REAL_EVERY - 1, wide=seed >= WIDE)
