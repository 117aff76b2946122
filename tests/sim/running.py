"""Worlds of one kind run one after the other, and what they reached together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.sim.kinds import Kind, Lived

ROOT = Path(__file__).parents[2]
ORDERED = {"PYTHONHASHSEED": "0"}
"""Of a process whose worlds are to be the same each time: the order of a set may decide what is sent first."""


@dataclass
class Tally:
    """How many worlds of a kind reached each sort of event, and what fails in which."""

    kind: Kind
    reached: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    worlds: int = 0

    def missing(self) -> list[str]:
        """What no world reached and one has to."""
        return [what for what in self.kind.required if not self.reached[what]]

    def told(self) -> str:
        """All counts in words."""
        required = self.kind.required
        lines = [f"{self.reached[what]:7} {what}" for what in required]
        lines += [f"{count:7} {what}" for what, count in sorted(self.reached.items()) if what not in required]
        return f"{self.worlds} worlds; so many reached\n" + "\n".join(lines)

    def stories(self) -> str:
        """The first failing world with all that happened in it, and how to see it again; empty where none fails."""
        for seed, error in sorted(self.failures.items()):
            story = run_world(self.kind, seed)[2].story()
            return f"{story}\nseed {seed}: {error}\npython -m tests.sim {self.kind.name} {seed}"
        return ""

    def add(self, other: Tally) -> None:
        self.reached.update(other.reached)
        self.failures.update(other.failures)
        self.worlds += other.worlds


def run_world(kind: Kind, seed: int) -> tuple[Counter[str], str | None, Lived]:
    """Run the world of `seed`; return what it reached, what does not hold (None: all holds), and the world."""
    world = kind.make(seed)
    try:
        return world.run(), None, world
    except Exception as error:  # noqa: BLE001 whatever breaks is reported with its seed
        where = traceback.extract_tb(error.__traceback__)[-1]
        return world.reached, f"{error or type(error).__name__} ({where.name}:{where.lineno})", world


def run_worlds(kind: Kind, seeds: Iterable[int]) -> Tally:
    """Run the worlds of `seeds`."""
    tally = Tally(kind)
    for seed in seeds:
        reached, error, _ = run_world(kind, seed)
        tally.worlds += 1
        tally.reached.update({what: 1 for what, count in reached.items() if count})
        if error is not None:
            tally.failures[seed] = error
    return tally


def caught(kind: Kind, name: str) -> dict[str, str | None]:
    """Run the named seeds of a fault with the fault in the code, in a process of its own; what each said."""
    command = [sys.executable, "-m", "tests.sim", kind.name, "--mutant", name, *map(str, kind.seeds[name])]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **ORDERED})
    assert run.returncode in (0, 1) and run.stdout, run.stdout + run.stderr
    found: dict[str, str | None] = json.loads(run.stdout)
    return found
