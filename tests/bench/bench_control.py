"""The daemon: `hhd ls` through its socket as a whole process, and its own start, beside an interpreter with click."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.bench_registry import listed, session
from tests.bench.harness import paired, process, report

from hhd.node.store import opened

COMMAND = "python -m tests.bench control"
N = 25
HHD = (sys.executable, "-m", "hhd")


def made(folder: Path, sessions: int) -> None:
    """A store in `folder` with so many lines in its list, and this process's environment for it."""
    for kind in ("CONFIG", "DATA", "CACHE"):
        os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
    dice = random.Random(5)
    with opened() as store, store.transaction():
        for number in range(sessions):
            store.rows.enlist("directory", b"", session(number))
        store.catalogue.refill(
            (one.id, one.encoded()) for one in (listed(n, store.device, dice) for n in range(sessions))
        )


def main() -> None:
    """Report `hhd ls` over the socket for 20 and 10,000 sessions, without a daemon, and start to ready."""
    bare = process(sys.executable, "-c", "import click")
    for sessions, target in ((20, 1.5), (10_000, None)):
        with tempfile.TemporaryDirectory() as folder:
            made(Path(folder), sessions)
            figure = f"hhd ls, {sessions} sessions, / import click"
            alone = paired(process(*HHD, "ls"), bare, n=N)
            report(f"{figure}, no daemon", COMMAND, "warm", **alone)
            subprocess.run([*HHD, "up"], check=True, stdout=subprocess.DEVNULL)
            try:
                measured = paired(process(*HHD, "ls"), bare, n=N)
                report(f"{figure}, through the socket", COMMAND, "warm", target=target, **measured)
            finally:
                subprocess.run([*HHD, "down"], check=True, stdout=subprocess.DEVNULL)
            if sessions == 10_000:
                _start()


def _start() -> None:
    """From `hhd up` to its answer, which is more than to a daemon that is ready."""
    down = process(*HHD, "down")
    report(
        "hhd up, whole process, / hhd down", COMMAND, "warm", target_ms=1000, **paired(process(*HHD, "up"), down, n=9)
    )


if __name__ == "__main__":
    main()
