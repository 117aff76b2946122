"""A process that is killed at any moment loses nothing that it promised."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED

from hhd.store.check import Check
from hhd.store.line import Line
from hhd.store.store import Limits, Store

ROOT = Path(__file__).parents[2]

WORK = """
import sys
from pathlib import Path
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from tests.store.conftest import ALICE, SEED, Memory

store = Store.open(Path(sys.argv[1]), seed=SEED, limits=Limits(free_bytes_min=0))
store.create_session(ALICE)
with store.advance(ALICE):
    heads = store.heads(ALICE)
    memory, line = Memory(12, int(sys.argv[2])), Line(store, ALICE, heads[-1] if heads else None)
    while True:
        head = line.checkpoint(snapshot=memory.snapshot(), logs={"log": b"line\\n"})
        print("checkpoint", head.hex(), flush=True)
        print("journal", store.rows.append("journal", ALICE, head), flush=True)
        memory.edit(4)
"""


def kill_and_look(folder: Path, rounds: int, dice: random.Random) -> int:
    """Kill the writer `rounds` times; return how many promises were made in all."""
    promised: list[str] = []
    journal = 0
    for number in range(rounds):
        command = [sys.executable, "-c", WORK, str(folder), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
            assert writer.stdout is not None
            for _ in range(dice.randrange(1, 9)):
                line = writer.stdout.readline()
                assert line, "the writer ended by itself"
                kind, value = line.split()
                promised += [value] if kind == "checkpoint" else []
                journal = int(value) + 1 if kind == "journal" else journal
            writer.kill()
            rest = writer.stdout.read()
            for kind, value in (line.split() for line in rest.splitlines() if line.count(" ") == 1):
                promised += [value] if kind == "checkpoint" and len(value) == 64 else []
        with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
            assert not Check(store).run().findings
            held = [one.hex() for one in store.checkpoint_ids(ALICE)]
            assert [one for one in held if one in set(promised)] == promised, "a promised checkpoint is gone"
            assert store.rows.length("journal", ALICE) >= journal
            Line(store, ALICE, store.heads(ALICE)[-1]).snapshot()
    return len(promised)


def test_a_few_kills_lose_no_promise(tmp_path: Path) -> None:
    assert kill_and_look(tmp_path / "store", 6, random.Random(1)) >= 6


@pytest.mark.long
@pytest.mark.parametrize("part", range(3))
def test_three_hundred_kills_lose_no_promise(tmp_path: Path, part: int) -> None:
    assert kill_and_look(tmp_path / "store", 100, random.Random(part)) >= 100
