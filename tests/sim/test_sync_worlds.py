"""Hundreds of seeded worlds in which devices sync by the product's machine; faults in it are caught by named seeds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.sim.sync_running import MUTANTS, REQUIRED, run_world, run_worlds, told

ROOT = Path(__file__).parents[2]
ALWAYS, AT_MOST, BOX_SECONDS = 300, 600, 60
"""Worlds that are run however slow the machine is; more of them while the box of time lasts."""
LONG = range(10_000, 10_400)
SEEDS: dict[str, list[int]] = json.loads((Path(__file__).parent / "sync_seeds.json").read_text())
FOUND = {
    282: "who answered once that it had not an object was never asked again, and nobody else came",
    851: "a head whose content died with its device kept two that were level from saying so",
}


def test_nothing_breaks_in_the_first_worlds_and_all_settle() -> None:
    end = time.monotonic() + BOX_SECONDS
    reached, failures, count = run_worlds(range(ALWAYS))
    more, failed, others = run_worlds(range(ALWAYS, AT_MOST), lambda: time.monotonic() < end)
    reached.update(more)
    print(told(reached, count + others))
    assert not failures | failed, f"python -m tests.sim.sync_running {min(failures | failed)}: {failures | failed}"
    assert not [what for what in REQUIRED if not reached[what]], told(reached, count)


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_worlds_that_broke_once_hold(seed: int) -> None:
    assert run_world(seed)[1] is None


@pytest.mark.long
def test_nothing_breaks_in_more_worlds() -> None:
    reached, failures, count = run_worlds(LONG)
    print(told(reached, count))
    assert not failures and not [what for what in REQUIRED if not reached[what]]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_caught_by_its_seeds(name: str) -> None:
    command = [sys.executable, "-m", "tests.sim.sync_running", "--mutant", name, *map(str, SEEDS[name])]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(json.loads(run.stdout).values()), run.stdout
    assert all(run_world(seed)[1] is None for seed in SEEDS[name]), "and the right code passes them"


def test_a_world_is_the_same_each_time() -> None:
    one, other = run_world(96), run_world(96)
    assert one[0] == other[0]
