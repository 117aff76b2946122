"""Worlds of groups run one after the other, and what they reached together."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.sim.group.world import World

REQUIRED = (
    "added",
    "added again",
    "agreed",
    "allowed",
    "begun anew",
    "counts anew",
    "cut-offs unite",
    "damaged records refused",
    "fallen",
    "flood",
    "former members",
    "in another group",
    "learnt that it is out",
    "message lost",
    "mutual revocation",
    "nobody is left",
    "partition",
    "records twice",
    "revocation",
    "ring",
    "sealed",
    "some records only",
    "the join was lost",
    "the thief: add",
    "the thief: found",
    "the thief: puppet",
    "the thief: revoke",
    "two groups",
    "who is out may nothing",
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


def run_world(seed: int) -> tuple[Counter[str], str | None, World]:
    """Run the world of `seed`; return what it reached, what does not hold (None: all holds), and the world."""
    world = World(seed)
    try:
        return world.run(), None, world
    except Exception as error:  # noqa: BLE001 whatever breaks is reported with its seed
        where = traceback.extract_tb(error.__traceback__)[-1]
        return world.reached, f"{error or type(error).__name__} ({where.name}:{where.lineno})", world


def run_worlds(seeds: Iterable[int], go_on: Callable[[], bool] = lambda: True) -> Tally:
    """Run the worlds of `seeds` while `go_on` says so."""
    tally = Tally()
    for seed in seeds:
        if not go_on():
            break
        reached, error, _ = run_world(seed)
        tally.worlds += 1
        tally.reached.update({what: 1 for what, count in reached.items() if count})
        if error is not None:
            tally.failures[seed] = error
    return tally
