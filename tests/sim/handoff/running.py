"""The worlds with handoffs, and what has to happen in some of them."""

from __future__ import annotations

from tests.sim.handoff.world import HandoffWorld

from hhd_protocol.handoff import TABLE, Act, Stage

REAL_EVERY = 97

STAGES = tuple(
    sorted(
        {
            f"{row.side.value}: {(stage if row.to is None else row.to).value}"
            for row in TABLE
            for stage in row.stages
            if Act.PERSIST in row.does and row.to is not Stage.NONE
        }
    )
)
"""Every stage that a journal can come to."""

REQUIRED = (
    *STAGES,
    "cancelled",
    "cancelled too late",
    "cancelled what ran",
    "crash at source ready",
    "crash at source released",
    "crash at source staged",
    "crash at target admitted",
    "crash at target none",
    "crash at target ready",
    "fork",
    "gate opened",
    "link takes the place of another",
    "handoff message late on a replaced link",
    "handoff message lost",
    "handoff message lost with its link",
    "handoff message said again while the first is on a replaced link",
    "release shown to a third device",
    "restore",
    "takeover",
    "takeover of a release in flight",
    "uncertain effect",
    "unsynced writes lost",
)
RARE = frozenset({"takeover of a release in flight", "crash at source released", "cancelled too late"})


def make(seed: int) -> HandoffWorld:
    return HandoffWorld(seed, real=seed % REAL_EVERY == REAL_EVERY - 1)
