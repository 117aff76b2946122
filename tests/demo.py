"""`make demo`: shows on this machine, in a minute, what hhd does. Every line that claims something checks it first.

Each part is a function that prints what it does and returns nothing; a claim that does not hold ends the demo with
status 1. Parts use only what a person has: the command `hhd` and files.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests import demo_agent, demo_store

HHD = str(Path(sys.executable).with_name("hhd"))


def main() -> int:
    """Run every part in a folder of its own, which is removed afterwards."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hhd-demo-") as name:
        folder = Path(name)
        for kind in ("CONFIG", "DATA", "CACHE"):
            os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
        for part in PARTS:
            part(folder)
    print(f"\nAll of it held. The demo took {time.perf_counter() - begin:.0f} s. The command is .venv/bin/hhd.")
    return 0


def a_program_cut_into_processes(folder: Path) -> None:
    """Part 1: a loop that never yields, cut into many processes."""
    title("1. A program that never yields, cut into many processes")
    print("""
  A capsule is one paused program in one file. `spin` is a loop of two million rounds that never gives way;
  hhd stops it in the middle of the loop all the same, writes it to a file and goes on from there in a new process.""")
    whole, cut = folder / "whole.hhd", folder / "cut.hhd"
    told("new", "spin", "-o", whole)
    shutil.copy(whole, cut)

    command("run", whole)
    told("run", whole)
    uncut = transcript(whole)
    print(f"    {uncut}")

    dice, slices = random.Random(7), []
    command("step", cut, "--slice-checks", "N", after="   again and again, each in a process of its own")
    while True:
        begin = time.perf_counter()
        found = told("step", cut, "--slice-checks", dice.randint(1, 80_000))
        took = (time.perf_counter() - begin) * 1000
        if found["status"] == "finished":
            break
        slices.append((took, found))
        if len(slices) in (1, 2, 3) or len(slices) % 20 == 0:
            print(
                f"    process {len(slices):3}: stopped after {found['checks_total']:>9,} checks, "
                f"{found['dirty_pages']} pages of 4 KiB changed, {found['capsule_bytes']:,} bytes in the file"
            )
    print(f"    process {len(slices) + 1:3}: finished")
    command("transcript", cut)
    print(f"    {transcript(cut)}")
    claim(transcript(cut) == uncut, f"cut {len(slices)} times, it says byte for byte what the uncut run says")
    wall = [found["wall_ms"] for _, found in slices]
    print(
        f"    measured just now: a step {statistics.median(wall):.1f} ms inside, "
        f"{statistics.median(took for took, _ in slices):.0f} ms as a whole process (median of {len(slices)})"
    )


def a_fork_is_a_copy(folder: Path) -> None:
    """Part 2: a copy of the file is a fork of the program."""
    title("2. A copy of the file is a fork of the program")
    one, other = folder / "one.hhd", folder / "other.hhd"
    told("new", "spin", "-o", one, "--arg", "iterations=600000")
    told("step", one, "--slice-checks", 250_000)
    print(f"\n  $ cp {one.name} {other.name}        (`hhd capsule fork` does the same and never overwrites)")
    shutil.copy(one, other)
    lines = []
    for path in (one, other):
        command("run", path)
        lines.append(told("run", path)["line"])
        print(f"    {transcript(path)}")
    claim(transcript(one) == transcript(other), "both went on from the same instruction to the same end")
    claim(lines[0] != lines[1], "and each is a line of its own from its first step on")


def what_is_refused(folder: Path) -> None:
    """Part 3: damage is refused, and nothing is changed."""
    title("3. What is damaged is refused, and nothing is changed")
    path = folder / "damaged.hhd"
    told("new", "spin", "-o", path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    command("step", path, after="   after one bit of it was flipped")
    done = subprocess.run([HHD, "capsule", "step", str(path)], capture_output=True, text=True)
    print("    " + done.stderr.strip().replace(str(folder) + os.sep, ""))
    claim(done.returncode == 3 and path.read_bytes() == raw, "exit status 3, and the file is as it was")


def an_agent_carried_elsewhere(folder: Path) -> None:
    """Part 4: the coding agent."""
    demo_agent.part(folder, title, claim)


def an_agent_in_the_store(folder: Path) -> None:
    """Part 5: a session in the sealed store."""
    demo_store.part(folder, title, claim)


PARTS = [
    a_program_cut_into_processes,
    a_fork_is_a_copy,
    what_is_refused,
    an_agent_carried_elsewhere,
    an_agent_in_the_store,
]


def title(text: str) -> None:
    """Begin a part."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def claim(holds: bool, text: str) -> None:
    """Print what was just checked; end the demo where it does not hold."""
    print(f"  {'ok' if holds else 'NOT SO'}: {text}", flush=True)
    if not holds:
        raise SystemExit(1)


def command(*words: object, after: str = "") -> None:
    """Print a command as a person would type it."""
    shown = " ".join(word.name if isinstance(word, Path) else str(word) for word in words)
    print(f"\n  $ hhd capsule {shown}{after}", flush=True)


def told(*words: object) -> dict[str, Any]:
    """Run `hhd capsule` with `--json` and return its object."""
    done = subprocess.run([HHD, "capsule", *map(str, words), "--json"], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, end="")
        raise SystemExit(1)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def transcript(path: Path) -> str:
    """What the program in `path` said."""
    return subprocess.run([HHD, "capsule", "transcript", str(path)], capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
