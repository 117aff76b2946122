"""Runs seeded worlds of one kind: holding (where none is named), handoff, group, sync.

python -m tests.sim [KIND] SEED                   replay one world and print its whole trace
python -m tests.sim [KIND] --seeds 100000         many, on every core; goes on where it was stopped (--state FILE)
python -m tests.sim [KIND] --mutant NAME SEED...  with one deliberate fault in the product's code
python -m tests.sim [KIND] --find-seeds           seeds that catch each mutant, for `seeds.json` of the kind
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
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path

from tests.sim import mutants
from tests.sim.kinds import HOLDING, KINDS, Kind
from tests.sim.running import ORDERED, ROOT, Tally, run_world, run_worlds
from tests.sim.seeds import WIDE

CHUNK = 250
FAILURES_SHOWN = 20
WIDE_SHARE = 4


def _code() -> str:
    """What the worlds are made of: a half-done run of other code is begun anew."""
    digest = sha256()
    for folder in (ROOT / "protocol" / "hhd_protocol", ROOT / "tests" / "sim"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def replay(kind: Kind, seed: int) -> int:
    """Run one world and print all that happened."""
    reached, error, world = run_world(kind, seed)
    print(world.story())
    print(", ".join(f"{what} {count}" for what, count in sorted(reached.items())))
    print(f"seed {seed}: {error or 'all holds'}")
    return 1 if error else 0


def _chunk(kind: Kind, first_last: tuple[int, int]) -> tuple[int, Tally]:
    return first_last[0], run_worlds(kind, range(*first_last))


def _chunks(first: int, count: int) -> list[tuple[int, int]]:
    return [(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]


def many(kind: Kind, first: int, count: int, jobs: int, state: Path) -> int:
    """Run `count` worlds from `first` on, and a quarter as many wide ones where the kind has any.

    Prints what they reached, and every seed that fails.
    """
    started = time.monotonic()
    code, chunks = _code(), [*_chunks(first, count), *(_chunks(WIDE + first, count // WIDE_SHARE) if kind.wide else [])]
    kept = json.loads(state.read_text()) if state.exists() else {}
    tally, done = Tally(kind), set()
    if kept.get("code") == code:
        done = set(kept["done"])
        tally.reached.update(kept["reached"])
        tally.failures.update({int(seed): error for seed, error in kept["failures"].items()})
        print(f"{len(done)} of {len(chunks)} parts were done before", flush=True)
    todo = [chunk for chunk in chunks if chunk[0] not in done]
    with multiprocessing.Pool(jobs) as pool:
        for at, part in pool.imap_unordered(partial(_chunk, kind), todo):
            done.add(at)
            tally.add(part)
            for seed, error in part.failures.items():
                print(f"seed {seed}: {error}\n  python -m tests.sim {kind.name} {seed}", flush=True)
            said = {"code": code, "done": sorted(done), "reached": tally.reached, "failures": tally.failures}
            with tempfile.NamedTemporaryFile("w", dir=state.parent, delete=False) as file:
                json.dump(said, file)
            os.replace(file.name, state)
            if len(done) % 20 == 0:
                print(f"{len(done)} of {len(chunks)} parts, {time.monotonic() - started:.0f} s", flush=True)
            if len(tally.failures) > FAILURES_SHOWN:
                break
    tally.worlds = sum(end - at for at, end in chunks if at in done)
    print(tally.told())
    print(f"{tally.worlds} {kind.what}, {len(tally.failures)} failed, {time.monotonic() - started:.0f} s")
    missing = tally.missing()
    if missing:
        print(f"no world reached: {', '.join(missing)}")
    return 1 if tally.failures or missing else 0


def with_mutant(kind: Kind, name: str, seeds: Iterable[int], wanted: int | None = None) -> int:
    """Run `seeds` on the product's code with one fault in it; exit 0 if every one of them catches it.

    With `wanted`, stop when so many have.
    """
    mutants.install(kind.mutants[name])
    caught: dict[int, str | None] = {}
    for seed in seeds:
        error = run_world(kind, seed)[1]
        if error is not None or wanted is None:
            caught[seed] = error
        if len(caught) == wanted:
            break
    print(json.dumps(caught))
    return 0 if caught and all(caught.values()) else 1


def find_seeds(kind: Kind, count: int, names: list[str]) -> int:
    """Put the first seeds that catch each mutant of `names` into the kind's `seeds.json`; `count` worlds are tried."""
    found = kind.seeds
    for name in names:
        command = [sys.executable, "-m", "tests.sim", kind.name, "--mutant", name, "--find-seeds", str(count)]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        caught: dict[str, str] = json.loads(run.stdout)
        print(name, caught, flush=True)
        found[name] = [int(seed) for seed in caught]
        kept = {known: found[known] for known in kind.mutants if known in found}
        kind.seeds_path.write_text(json.dumps(kept, indent=1) + "\n")
    return 0 if all(found[name] for name in names) else 1


def main(arguments: list[str]) -> int:
    kind = KINDS[arguments.pop(0)] if arguments and arguments[0] in KINDS else HOLDING
    state = Path(tempfile.gettempdir()) / f"hhd-sim-{kind.name}.json"
    parser = argparse.ArgumentParser(prog=f"python -m tests.sim {kind.name}", usage=__doc__)
    parser.add_argument("seed", nargs="*", type=int)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--state", type=Path, default=state)
    parser.add_argument("--mutant", choices=sorted(kind.mutants))
    parser.add_argument("--of", action="append", choices=sorted(kind.mutants))
    parser.add_argument("--find-seeds", type=int, nargs="?", const=3000)
    asked = parser.parse_args(arguments)
    if asked.find_seeds and asked.mutant:
        begin = WIDE if kind.mutants[asked.mutant].wide else 0
        return with_mutant(kind, asked.mutant, range(begin, begin + asked.find_seeds), kind.seeds_wanted)
    if asked.find_seeds:
        return find_seeds(kind, asked.find_seeds, asked.of or list(kind.mutants))
    if asked.mutant:
        return with_mutant(kind, asked.mutant, asked.seed)
    if asked.seeds:
        return many(kind, asked.first, asked.seeds, asked.jobs, asked.state)
    if not asked.seed:
        parser.error("say which seed, or --seeds N")
    return max([replay(kind, seed) for seed in asked.seed])


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != ORDERED["PYTHONHASHSEED"]:
        os.execve(sys.executable, [sys.executable, "-m", "tests.sim", *sys.argv[1:]], {**os.environ, **ORDERED})
    sys.exit(main(sys.argv[1:]))
