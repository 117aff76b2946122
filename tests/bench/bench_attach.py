"""Terminals at one session: a key typed at one until it is on the other's screen, and coming to a session at all."""

from __future__ import annotations

import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.harness import paired, percentile, process, report
from tests.e2e.attached import Daemon, daemon
from tests.e2e.lab import ALLOW, says, script, text
from tests.e2e.test_run_terminal import Terminal, at_terminal

COMMAND = "python -m tests.bench attach"
KEYS, COMES = 300, 15
LETTERS = "abcdefghij"


def main() -> None:
    """Report both figures; the terminals are whole processes at pseudo-terminals."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "laptop"
        with daemon(home, config=ALLOW, environ={"HHD_CACHE_HOME": str(home / "cache")}) as one:
            repo = Path(folder) / "repo"
            repo.mkdir()
            model = script(home / "s.jsonl", [says(text("So?"))])
            session = one.runs.begin("x", folder=repo, model=model).session
            _keys(one, session, repo)
            _comes(one, session, repo)


def _keys(one: Daemon, session: str, repo: Path) -> None:
    with (
        at_terminal(one.device, "attach", session, cwd=repo) as (types, _),
        at_terminal(one.device, "attach", session, cwd=repo) as (watches, _),
    ):
        for terminal in (types, watches):
            terminal.wait("So?\r\n\x1b[1m> \x1b[0m")
        times, bare = [], []
        line = ""
        for number in range(KEYS):
            if len(line) == 20:
                types.type("\x15")
                _seen(watches, "> ")
                line = ""
            line += LETTERS[number % len(LETTERS)]
            begin = time.perf_counter()
            types.type(line[-1])
            _seen(watches, f"({line})")
            times.append((time.perf_counter() - begin) * 1000)
            bare.append(_echo())
        types.type("\x15\x04")
        watches.type("\x04")
        types.rest(), watches.rest()
    report(
        "a key typed at one terminal, until the other shows it", COMMAND, "warm", n=KEYS, target_p95_ms=30,
        median_ms=round(statistics.median(times), 2), p95_ms=round(percentile(times, 0.95), 2),
        p99_ms=round(percentile(times, 0.99), 2), echo_of_the_kernel_median_ms=round(statistics.median(bare), 3),
    )  # fmt: skip


def _seen(terminal: Terminal, words: str) -> None:
    terminal.screen = ""
    while words not in terminal.screen:
        assert terminal.read()


def _echo() -> float:
    """Milliseconds that a bare pseudo-terminal takes to echo a key: what the way to a screen costs by itself."""
    person, theirs = pty.openpty()
    begin = time.perf_counter()
    os.write(person, b"x")
    select.select([person], [], [])
    os.read(person, 10)
    took = (time.perf_counter() - begin) * 1000
    os.close(person)
    os.close(theirs)
    return took


def _comes(one: Daemon, session: str, repo: Path) -> None:
    """`hhd attach` as a whole process with nobody at it, which leaves when it has shown what is there."""
    os.environ.update(one.device.environ)
    attach = lambda: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "hhd", "attach", session],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    bare = process(sys.executable, "-c", "import click")
    report("hhd attach, whole process, / import click", COMMAND, "warm", **paired(attach, bare, n=COMES))


if __name__ == "__main__":
    main()
