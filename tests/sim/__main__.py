"""Runs seeded worlds.

python -m tests.sim SEED                replay one world and print its whole trace
python -m tests.sim --seeds 100000      many, on every core; goes on where it was stopped (--state FILE)
python -m tests.sim --mutant NAME SEED...  with one deliberate fault in the product's code
python -m tests.sim --find-seeds        seeds that catch each mutant, for `seeds.json`
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from tests.sim import mutants
from tests.sim.seeds import WIDE

ROOT = Path(__file__).parents[2]
CHUNK = 250
FAILURES_SHOWN = 20
SEEDS_WANTED = 2
WIDE_SHARE = 4


def _code() -> str:
    """What the worlds are made of: a half-done run of other code is begun anew."""
    digest = sha256()
    for folder in (ROOT / "protocol" / "hhd_protocol", ROOT / "tests" / "sim"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def replay(seed: int) -> int:
    """Run one world and print all that happened."""
    from tests.sim.running import run_world

    reached, error, world = run_world(seed)
    print(world.story())
    print(", ".join(f"{what} {count}" for what, count in sorted(reached.items())))
    print(f"seed {seed}: {error or 'all holds'}")
    return 1 if error else 0


def _chunk(first_last: tuple[int, int]) -> tuple[int, Counter[str], dict[int, str]]:
    from tests.sim.running import run_worlds

    tally = run_worlds(range(*first_last))
    return first_last[0], tally.reached, tally.failures


def _chunks(first: int, count: int) -> list[tuple[int, int]]:
    return [(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]


def many(first: int, count: int, jobs: int, state: Path) -> int:
    """Run `count` worlds from `first` on, and a quarter as many with removals and late content.

    Prints what they reached, and every seed that fails.
    """
    from tests.sim.running import Tally

    started = time.monotonic()
    code, chunks = _code(), [*_chunks(first, count), *_chunks(WIDE + first, count // WIDE_SHARE)]
    kept = json.loads(state.read_text()) if state.exists() else {}
    tally, done = Tally(), set()
    if kept.get("code") == code:
        done = set(kept["done"])
        tally.reached.update(kept["reached"])
        tally.failures.update({int(seed): error for seed, error in kept["failures"].items()})
        print(f"{len(done)} of {len(chunks)} parts were done before", flush=True)
    todo = [chunk for chunk in chunks if chunk[0] not in done]
    with multiprocessing.Pool(jobs) as pool:
        for at, reached, failures in pool.imap_unordered(_chunk, todo):
            done.add(at)
            tally.reached.update(reached)
            tally.failures.update(failures)
            for seed, error in failures.items():
                print(f"seed {seed}: {error}\n  python -m tests.sim {seed}", flush=True)
            said = {"code": code, "done": sorted(done), "reached": tally.reached, "failures": tally.failures}
            with tempfile.NamedTemporaryFile("w", dir=state.parent, delete=False) as file:
                json.dump(said, file)
            os.replace(file.name, state)
            if len(done) % 20 == 0:
                print(f"{len(done)} of {len(chunks)} parts, {time.monotonic() - started:.0f} s", flush=True)
            if len(tally.failures) > FAILURES_SHOWN:
                break
    print(tally.told())
    worlds = sum(end - at for at, end in chunks if at in done)
    print(f"{worlds} worlds, {len(tally.failures)} failed, {time.monotonic() - started:.0f} s")
    missing = tally.missing()
    if missing:
        print(f"no world reached: {', '.join(missing)}")
    return 1 if tally.failures or missing else 0


def with_mutant(name: str, seeds: Iterable[int], wanted: int | None = None) -> int:
    """Run `seeds` on the product's code with one fault in it; exit 0 if every one of them catches it.

    With `wanted`, stop when so many have.
    """
    mutants.install(name)
    from tests.sim.running import run_world

    caught: dict[int, str | None] = {}
    for seed in seeds:
        error = run_world(seed)[1]
        if error is not None or wanted is None:
            caught[seed] = error
        if len(caught) == wanted:
            break
    print(json.dumps(caught))
    return 0 if caught and all(caught.values()) else 1


def find_seeds(count: int, names: list[str]) -> int:
    """Put the first seeds that catch each mutant of `names` into `seeds.json`; `count` worlds are tried."""
    path = Path(__file__).parent / "seeds.json"
    found: dict[str, list[int]] = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        command = [sys.executable, "-m", "tests.sim", "--mutant", name, "--find-seeds", str(count)]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        caught: dict[str, str] = json.loads(run.stdout)
        print(name, caught, flush=True)
        found[name] = [int(seed) for seed in caught]
        path.write_text(
            json.dumps({known: found[known] for known in mutants.MUTANTS if known in found}, indent=1) + "\n"
        )
    return 0 if all(found[name] for name in names) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", usage=__doc__)
    parser.add_argument("seed", nargs="*", type=int)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "hhd-sim-state.json")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS))
    parser.add_argument("--of", action="append", choices=sorted(mutants.MUTANTS))
    parser.add_argument("--find-seeds", type=int, nargs="?", const=2000)
    asked = parser.parse_args()
    if asked.find_seeds and asked.mutant:
        begin = WIDE if mutants.MUTANTS[asked.mutant].wide else 0
        return with_mutant(asked.mutant, range(begin, begin + asked.find_seeds), SEEDS_WANTED)
    if asked.find_seeds:
        return find_seeds(asked.find_seeds, asked.of or list(mutants.MUTANTS))
    if asked.mutant:
        return with_mutant(asked.mutant, asked.seed)
    if asked.seeds:
        return many(asked.first, asked.seeds, asked.jobs, asked.state)
    if not asked.seed:
        parser.error("say which seed, or --seeds N")
    return max([replay(seed) for seed in asked.seed])


if __name__ == "__main__":
    sys.exit(main())
