"""Each deliberate fault in the product's code is caught by named seeds, which the right code passes."""

from __future__ import annotations

import pytest
from tests.sim.kinds import KINDS, Kind
from tests.sim.running import Tally, caught, run_worlds

QUICK = {"group": 6, "sync": 7}
"""Of these kinds so many are tried each time, the others in the long run: each takes a process of its own."""


def _faults() -> list[object]:
    return [
        pytest.param(kind, name, id=f"{kind.name}: {name}", marks=[pytest.mark.long] if at >= quick else [])
        for kind in KINDS.values()
        for quick in [QUICK.get(kind.name, len(kind.mutants))]
        for at, name in enumerate(kind.mutants)
    ]


@pytest.mark.parametrize(("kind", "name"), _faults())
def test_a_fault_is_caught_by_its_seeds(kind: Kind, name: str) -> None:
    said = caught(kind, name)
    assert said and all(said.values()), said


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_right_code_passes_the_same_seeds(kind: Kind) -> None:
    tally = run_worlds(kind, sorted({seed for seeds in kind.seeds.values() for seed in seeds}))
    assert tally.worlds > 3 and not tally.failures, tally.stories()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_fault_has_seeds_and_every_seed_a_fault(kind: Kind) -> None:
    assert kind.seeds.keys() == kind.mutants.keys() and all(kind.seeds.values())


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_run_that_met_no_trouble_shows_nothing(kind: Kind) -> None:
    tally = Tally(kind)
    assert tally.missing() == list(kind.required)
    tally.reached.update(kind.required[1:])
    assert tally.missing() == [kind.required[0]]
