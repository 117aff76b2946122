"""The worlds that sync, and what has to happen in some of them."""

from __future__ import annotations

from tests.sim.seeds import WIDE
from tests.sim.sync.keeping import KeepingWorld

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
    "link takes the place of another",
    "ends see a replaced link each in another order",
    "link begun before the end of the other was seen",
    "end told after the begin of the next",
    "message before its link was attended to",
    "message of a replaced link taken",
    "message of a replaced link let go",
    "said for a link that is no more",
    "answer carried out after a wake",
    "store-only member has all",
    "store-only member crashed",
    "letter read",
    "content from a store-only member",
    "restored from a store-only member alone",
    "removal",
    "removal in a partition",
    "removed",
    "let go",
    "newer work outlives a removal",
    "removed while at work",
)
RARE = frozenset({"already taken", "answer carried out after a wake", "full disk", "removed while at work"})


def make(seed: int) -> KeepingWorld:
    return KeepingWorld(seed, wide=seed >= WIDE)
