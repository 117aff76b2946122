"""What a handoff on the plain line costs in work, before the pause and in it: what a busy machine does not change.

Every process of hhd notes what it does (`marks/sitecustomize.py`): how often, at the source and at the target, the
store was opened, the statements of a session judged, transactions made durable, files synced, programs run; and the
processor time of threads while they worked with the store.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.bench_handoff import Round, handed
from tests.bench.harness import report
from tests.net import lab

COMMAND = "python -m tests.bench handoff_work"
ROUNDS = 8
MARKS = Path(__file__).with_name("marks")
KINDS = {"open": "stores opened", "judge": "judgements", "transaction": "durable transactions", "fsync": "files synced"}


class Mark(NamedTuple):
    """One call, as a process noted it; times in ns of the clock of all processes, `cpu` of its thread."""

    host: str
    process: int
    thread: str
    what: str
    name: str
    begin: int
    end: int
    cpu: int


def read(path: Path) -> list[Mark]:
    """All marks in a file."""
    return [Mark(*json.loads(line)) for line in path.read_text().splitlines()]


def counted(marks: list[Mark], one: Round) -> dict[str, dict[str, float]]:
    """What was done in one handoff, by side and part of it: before the pause, in it."""
    within = [mark for mark in marks if one.began <= mark.begin <= one.ended]
    pause = min((mark.end for mark in within if mark.name.endswith(".hold")), default=one.ended)
    over = min((mark.begin for mark in within if mark.name == "Turns.begun"), default=one.ended)
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for mark in within:
        if mark.begin >= over:
            continue
        side = "source" if mark.host == one.source else "target"
        into = found[f"{side}, {'before the pause' if mark.begin < pause else 'in the pause'}"]
        if mark.what in KINDS and mark.name != "empty":
            into[KINDS[mark.what]] += 1
        elif mark.what == "process":
            into["programs run"] += 1
        elif mark.what in ("step", "lineage", "open") and mark.thread != "MainThread":
            into["processor ms at the store"] += 0 if mark.what == "lineage" else mark.cpu / 1e6
    return found


def main() -> None:
    if (why := lab.missing()) is not None:
        print(f"handoff_work: {why}", file=sys.stderr)
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    kept: dict[str, Any] = {name: os.environ.get(name) for name in ("PYTHONPATH", "HHD_MARKS")}
    with tempfile.TemporaryDirectory(prefix="hhd-bench-marks-") as folder:
        path = Path(folder) / "marks"
        os.environ |= {"PYTHONPATH": str(MARKS), "HHD_MARKS": str(path)}
        try:
            _, *rounds = handed(None, rounds=ROUNDS)
        finally:
            for name, value in kept.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        marks = read(path)
    each = [counted(marks, one) for one in rounds]
    for part in sorted({part for one in each for part in one}):
        names = sorted({name for one in each for name in one.get(part, {})})
        medians = {name: round(statistics.median(one[part].get(name, 0.0) for one in each), 1) for name in names}
        report(f"a handoff, {part}", COMMAND, "warm", n=len(rounds), **medians)


if __name__ == "__main__":
    main()
