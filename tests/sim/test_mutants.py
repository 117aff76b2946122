"""Each deliberate fault in the product's code is caught by named seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim.mutants import MUTANTS
from tests.sim.running import run_world

ROOT = Path(__file__).parents[2]
SEEDS: dict[str, list[int]] = json.loads((Path(__file__).parent / "seeds.json").read_text())
"""By mutant, from `python -m tests.sim --find-seeds`; to be found anew when the worlds change."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_caught_by_its_seeds(name: str) -> None:
    command = [sys.executable, "-m", "tests.sim", "--mutant", name, *map(str, SEEDS[name])]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(json.loads(run.stdout).values())


@pytest.mark.parametrize("seed", sorted({seed for seeds in SEEDS.values() for seed in seeds}))
def test_the_right_code_passes_the_same_seeds(seed: int) -> None:
    assert run_world(seed)[1] is None


def test_every_fault_has_seeds_and_every_seed_a_fault() -> None:
    assert SEEDS.keys() == MUTANTS.keys()
    assert all(SEEDS.values())
