"""Measures honestly: the two sides of a ratio in turn, medians and p99, one JSON object a figure."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def percentile(times: Sequence[float], share: float) -> float:
    """The value below which `share` of `times` lie (nearest rank)."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def own_folders(folder: Path) -> None:
    """Let hhd in this process and those it starts keep everything below `folder`: not among what a person has.

    Bytecode too: an installed program has its own, so where Python is told to write none, compiling would be measured.
    """
    for kind in ("CONFIG", "DATA", "CACHE"):
        os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")


def process(*command: str) -> Callable[[], object]:
    """An act that runs a whole process and insists that it succeeds."""
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


def paired(act: Callable[[], object], other: Callable[[], object], n: int, warmup: int = 1) -> dict[str, float]:
    """Run `act` and `other` in turn `n` times; medians and p99 in ms, and the median of the pairwise ratios."""
    for _ in range(warmup):
        act(), other()
    pairs = [(timed(act), timed(other)) for _ in range(n)]
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    return {
        "n": n,
        "median_ms": round(statistics.median(ours), 3),
        "p99_ms": round(percentile(ours, 0.99), 3),
        "other_median_ms": round(statistics.median(theirs), 3),
        "other_p99_ms": round(percentile(theirs, 0.99), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }


def report(figure: str, command: str, state: str, **measured: object) -> None:
    """Print one figure as a line of JSON; `state` is "cold" or "warm"."""
    json.dump({"figure": figure, "command": command, "state": state, **measured}, sys.stdout)
    print(flush=True)
