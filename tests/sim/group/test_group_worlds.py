"""Seeded worlds of groups in which nothing that must hold is broken, and every kind of trouble was met."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sim.group.mutants import MUTANTS
from tests.sim.group.running import REQUIRED, Tally, run_world, run_worlds
from tests.sim.group.world import World

ROOT = Path(__file__).parents[3]
SEEDS: dict[str, list[int]] = json.loads((Path(__file__).parent / "seeds.json").read_text())
"""By mutant, from `python -m tests.sim.group --find-seeds`; to be found anew when the worlds change."""
ALWAYS, AT_MOST, BOX_SECONDS = 300, 600, 60
LONG = range(50_000, 51_000)
RARE = frozenset({"cut-offs unite", "flood", "ring"})
"""What a few hundred worlds may miss; the long run may not."""
QUICK = 6
"""Mutants that are run each time, the others in the long run: each takes a process of its own."""


def _stories(tally: Tally) -> str:
    for seed, error in sorted(tally.failures.items()):
        return f"{run_world(seed)[2].story()}\nseed {seed}: {error}\npython -m tests.sim.group {seed}"
    return ""


def test_nothing_breaks_in_the_first_worlds() -> None:
    end = time.monotonic() + BOX_SECONDS
    tally = run_worlds(range(ALWAYS))
    more = run_worlds(range(ALWAYS, AT_MOST), lambda: time.monotonic() < end)
    print(f"{tally.worlds} and {more.worlds} worlds\n{tally.told()}")
    assert not tally.failures | more.failures, _stories(tally) or _stories(more)
    assert not set(tally.missing()) - RARE, tally.told()


@pytest.mark.long
def test_nothing_breaks_in_many_worlds() -> None:
    tally = run_worlds(LONG)
    print(f"{tally.worlds} worlds\n{tally.told()}")
    assert not tally.failures, _stories(tally)
    assert not tally.missing(), tally.told()


def _is_caught(name: str) -> None:
    command = [sys.executable, "-m", "tests.sim.group", "--mutant", name, *map(str, SEEDS[name])]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(json.loads(run.stdout).values())


@pytest.mark.parametrize("name", list(MUTANTS)[:QUICK])
def test_a_fault_is_caught_by_its_seed(name: str) -> None:
    _is_caught(name)


@pytest.mark.long
@pytest.mark.parametrize("name", list(MUTANTS)[QUICK:])
def test_each_other_fault_is_caught_by_its_seed(name: str) -> None:
    _is_caught(name)


def test_the_right_code_passes_the_same_seeds() -> None:
    tally = run_worlds(sorted({seed for seeds in SEEDS.values() for seed in seeds}))
    assert tally.worlds > 5 and not tally.failures, _stories(tally)


def test_every_fault_has_a_seed_and_every_seed_a_fault() -> None:
    assert SEEDS.keys() == MUTANTS.keys() and all(SEEDS.values())
    assert Tally().missing() == list(REQUIRED)


def test_a_failing_world_tells_its_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise AssertionError("it broke")

    monkeypatch.setattr(World, "agree", breaks)
    told = _stories(run_worlds([4]))
    assert "seed 4: it broke" in told and told.endswith("python -m tests.sim.group 4") and "the calm begins" in told


def test_a_world_is_the_same_each_time() -> None:
    one, other = run_world(4)[2], run_world(4)[2]
    assert one.story() == other.story() and one.reached == other.reached
    assert run_world(5)[2].story() != one.story()
