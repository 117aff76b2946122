"""The kinds of worlds that are simulated: what each is of, its list of faults, the seeds that catch those.

A kind is a folder here with `running.py` (`make(seed)`, `REQUIRED`, `RARE`), `mutants.py` (`MUTANTS`) and `seeds.json`.
Nothing of it is imported before it is asked for: a mutant has to be in place before the code that it is in.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from tests.sim.mutants import Mutant


class Lived(Protocol):
    """A world: `run` raises AssertionError where something does not hold."""

    reached: Counter[str]

    def run(self) -> Counter[str]:
        """Live through all of it; return how often it reached what."""

    def story(self) -> str:
        """All that happened, a line an event."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`what`: in words. `seeds_wanted`: so many seeds are named for each fault. `wide`: seeds from `WIDE` on make
    worlds of their own, of which a run has one for every four others."""

    name: str
    what: str
    seeds_wanted: int = 2
    wide: bool = True

    @property
    def seeds_path(self) -> Path:
        return Path(__file__).parent / self.name / "seeds.json"

    @property
    def mutants(self) -> Mapping[str, Mutant]:
        return cast("Mapping[str, Mutant]", self._part("mutants").MUTANTS)

    @property
    def seeds(self) -> dict[str, list[int]]:
        """By fault, from `python -m tests.sim KIND --find-seeds`; to be found anew when the worlds change."""
        found: dict[str, list[int]] = json.loads(self.seeds_path.read_text()) if self.seeds_path.exists() else {}
        return found

    @property
    def required(self) -> tuple[str, ...]:
        """What some world of a run must have reached, or the run shows less than it says."""
        return cast("tuple[str, ...]", self._part("running").REQUIRED)

    @property
    def rare(self) -> frozenset[str]:
        """What of that a few hundred worlds may miss; a long run may not."""
        return cast("frozenset[str]", self._part("running").RARE)

    def make(self, seed: int) -> Lived:
        """The world of a seed, to be run."""
        return cast("Lived", self._part("running").make(seed))

    def _part(self, name: str) -> Any:
        return importlib.import_module(f"tests.sim.{self.name}.{name}")


HOLDING = Kind(name="holding", what="worlds of devices that hold and take over")
HANDOFF = Kind(name="handoff", what="worlds with handoffs", wide=False)
GROUP = Kind(name="group", what="worlds of groups", seeds_wanted=1, wide=False)
SYNC = Kind(name="sync", what="worlds that sync")
KINDS = {kind.name: kind for kind in (HOLDING, HANDOFF, GROUP, SYNC)}
