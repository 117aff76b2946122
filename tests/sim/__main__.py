"""Runs seeded worlds: `python -m tests.sim SEED` replays one and prints its trace; `--help` says the rest."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.sim.world import World

REAL_EVERY = 97
"""Every so many worlds sign really: slow, and enough to show that the cheap ids hide nothing."""


def run_world(seed: int) -> tuple[Counter[str], str | None, World]:
    """Run the world of `seed`; return what it reached, what does not hold (None: all holds), and the world."""
    world = World(seed, real=seed % REAL_EVERY == REAL_EVERY - 1)
    try:
        return world.run(), None, world
    except Exception as error:  # noqa: BLE001 whatever breaks is reported with its seed
        where = traceback.extract_tb(error.__traceback__)[-1]
        return world.reached, f"{error or type(error).__name__} ({where.name}:{where.lineno})", world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        reached, error, world = run_world(arguments.seed)
        print(world.story())
        print(error or "all holds")
        return 1 if error else 0
    total: Counter[str] = Counter()
    started = time.monotonic()
    bad = []
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        reached, error, _ = run_world(seed)
        total.update(reached.keys())
        if error:
            bad.append(seed)
            print(seed, error)
            if len(bad) > 20:
                break
    for what, count in sorted(total.items()):
        print(f"{count:6} {what}")
    print(f"{time.monotonic() - started:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
