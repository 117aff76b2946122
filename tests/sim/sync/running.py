"""The worlds that sync, and what has to happen in some of them."""

from __future__ import annotations

from tests.sim.seeds import WIDE
from tests.sim.sync.world import SyncWorld

REQUIRED = (
    "message lost",
    "message twice",
    "out of order",
    "partition",
    "link cut in the middle",
    "crash",
    "unsynced writes lost",
    "clock jumped",
    "wake",
    "full disk",
    "restore",
    "death",
    "fork",
    "takeover",
    "release in flight",
    "held",
    "already taken",
    "level at once",
    "content sent along",
    "content absent",
    "all level",
    "full disk stops work",
    "removal",
    "removal in a partition",
    "removed",
    "let go",
    "newer work outlives a removal",
    "removed while at work",
)
RARE = frozenset({"removed while at work"})


def make(seed: int) -> SyncWorld:
    return SyncWorld(seed, wide=seed >= WIDE)
