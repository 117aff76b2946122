"""Runs seeded worlds of groups.

python -m tests.sim.group SEED                   replay one world and print its whole trace
python -m tests.sim.group --seeds 20000          many, on every core
python -m tests.sim.group --mutant NAME SEED...  with one deliberate fault in the product's code
python -m tests.sim.group --find-seeds           seeds that catch each mutant, for `seeds.json`
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.sim.group.mutants import MUTANTS
from tests.sim.mutants import install_mutant

ROOT = Path(__file__).parents[3]
CHUNK, SEEDS_WANTED = 250, 1


def replay(seed: int) -> int:
    """Run one world and print all that happened."""
    from tests.sim.group.running import run_world

    reached, error, world = run_world(seed)
    print(world.story())
    print(", ".join(f"{what} {count}" for what, count in sorted(reached.items())))
    print(f"seed {seed}: {error or 'all holds'}")
    return 1 if error else 0


def _chunk(at: int) -> tuple[Counter[str], dict[int, str]]:
    from tests.sim.group.running import run_worlds

    tally = run_worlds(range(at, at + CHUNK))
    return tally.reached, tally.failures


def many(first: int, count: int, jobs: int | None) -> int:
    """Run `count` worlds from `first` on; print what they reached, and every seed that fails."""
    from tests.sim.group.running import Tally

    started, tally = time.monotonic(), Tally()
    with multiprocessing.Pool(jobs) as pool:
        for reached, failures in pool.imap_unordered(_chunk, range(first, first + count, CHUNK)):
            tally.reached.update(reached)
            tally.failures.update(failures)
            for seed, error in failures.items():
                print(f"seed {seed}: {error}\n  python -m tests.sim.group {seed}", flush=True)
    print(tally.told())
    print(f"{count} worlds of groups, {len(tally.failures)} failed, {time.monotonic() - started:.0f} s")
    missing = tally.missing()
    if missing:
        print(f"no world reached: {', '.join(missing)}")
    return 1 if tally.failures or missing else 0


def with_mutant(name: str, seeds: Iterable[int], wanted: int | None = None) -> int:
    """Run `seeds` on the product's code with one fault in it; exit 0 if every one of them catches it.

    With `wanted`, stop when so many have.
    """
    install_mutant(MUTANTS[name])
    from tests.sim.group.running import run_world

    caught: dict[int, str | None] = {}
    for seed in seeds:
        error = run_world(seed)[1]
        if error is not None or wanted is None:
            caught[seed] = error
        if len(caught) == wanted:
            break
    print(json.dumps(caught))
    return 0 if caught and all(caught.values()) else 1


def find_seeds(count: int) -> int:
    """Put the first seeds below `count` that catch each mutant into `seeds.json`."""
    path = Path(__file__).parent / "seeds.json"
    found: dict[str, list[int]] = {}
    for name in MUTANTS:
        command = [sys.executable, "-m", "tests.sim.group", "--mutant", name, "--find-seeds", str(count)]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        caught: dict[str, str] = json.loads(run.stdout)
        print(name, caught, flush=True)
        found[name] = [int(seed) for seed in caught]
    path.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(found.values()) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.group", usage=__doc__)
    parser.add_argument("seed", nargs="*", type=int)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    parser.add_argument("--find-seeds", type=int, nargs="?", const=3000)
    asked = parser.parse_args()
    if asked.mutant:
        seeds = range(asked.find_seeds) if asked.find_seeds else asked.seed
        return with_mutant(asked.mutant, seeds, SEEDS_WANTED if asked.find_seeds else None)
    if asked.find_seeds:
        return find_seeds(asked.find_seeds)
    if asked.seeds:
        return many(asked.first, asked.seeds, asked.jobs)
    if not asked.seed:
        parser.error("say which seed, or --seeds N")
    return max([replay(seed) for seed in asked.seed])


if __name__ == "__main__":
    sys.exit(main())
