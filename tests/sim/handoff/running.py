"""Worlds with handoffs run one after the other, and what they reached together."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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
    "handoff message lost",
    "release shown to a third device",
    "restore",
    "takeover",
    "takeover of a release in flight",
    "uncertain effect",
    "unsynced writes lost",
)
"""What some world of a run must have reached, or the run shows less than it says."""


@dataclass
class Tally:
    """How many worlds reached each kind of event, and what fails in which."""

    reached: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    worlds: int = 0

    def missing(self) -> list[str]:
        return [what for what in REQUIRED if not self.reached[what]]

    def told(self) -> str:
        lines = [f"{self.reached[what]:7} {what}" for what in REQUIRED]
        lines += [f"{count:7} {what}" for what, count in sorted(self.reached.items()) if what not in REQUIRED]
        return "worlds that reached\n" + "\n".join(lines)


def run_world(seed: int) -> tuple[Counter[str], str | None, HandoffWorld]:
    """Run the world of `seed`; return what it reached, what does not hold (None: all holds), and the world."""
    world = HandoffWorld(seed, real=seed % REAL_EVERY == REAL_EVERY - 1)
    try:
        return world.run(), None, world
    except Exception as error:  # noqa: BLE001 whatever breaks is reported with its seed
        where = traceback.extract_tb(error.__traceback__)[-1]
        return world.reached, f"{error or type(error).__name__} ({where.name}:{where.lineno})", world


def run_worlds(seeds: Iterable[int], go_on: Callable[[], bool] = lambda: True) -> Tally:
    """Run the worlds of `seeds`, as long as `go_on` says so."""
    tally = Tally()
    for seed in seeds:
        if not go_on():
            break
        reached, error, _ = run_world(seed)
        tally.worlds += 1
        tally.reached.update(reached.keys())
        if error is not None:
            tally.failures[seed] = error
    return tally
