"""Terminals at one session: a key typed at one until it is on the other's screen, and coming to a session at all.

Then two daemons in network namespaces (Linux, as root): the same between two devices, as the daemons tell it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import queue
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from tests.bench.harness import paired, percentile, process, report
from tests.e2e.attached import Daemon, daemon
from tests.e2e.lab import ALLOW, says, script, text
from tests.e2e.test_run_terminal import Terminal, at_terminal
from tests.net import lab
from tests.net.lab import Emulated, Host, Net
from tests.net.paired import both_linked, pair, until

from hhd.app import sessions
from hhd.base.errors import UserError
from hhd.node.runs import Runs
from hhd_protocol import live

COMMAND = "python -m tests.bench attach"
KEYS, COMES, WORDS = 300, 15, 40
LINES = {"plain": None, "100 Mbit/s, 5 ms": Emulated(rate_mbit=100, delay_us=5000)}
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
    reason = lab.missing()
    if reason is not None:
        sys.exit(f"not measured between devices: {reason}")
    for line, emulated in LINES.items():
        _relayed(line, emulated)


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


class Seat:
    """One who is attached at a host: what it is told, with the moment at which it was."""

    def __init__(self, host: Host, session: str, by: str) -> None:
        self.runs, self.by = _runs(host), by
        self._told: queue.Queue[tuple[float, live.Event]] = queue.Queue()
        events = _runs(host).attach(session, position=None, by=by)
        threading.Thread(target=self._read, args=(events,), daemon=True).start()
        self.until(lambda event: isinstance(event, live.State))

    def _read(self, events: Iterator[live.Event]) -> None:
        with contextlib.suppress(UserError):  # The daemon ends.
            for event in events:
                self._told.put((time.perf_counter(), event))

    def until(self, holds: Callable[[live.Event], bool]) -> float:
        """When something was told that is so."""
        while True:
            at, event = self._told.get(timeout=60)
            if holds(event):
                return at


def _runs(host: Host) -> Runs:
    with mock.patch.dict(os.environ, host.environment, clear=True):
        link = sessions.daemon_link()
    assert link is not None
    return Runs(link)


def _relayed(line: str, emulated: Emulated | None) -> None:
    """A session at the desktop: a key typed at the laptop until the desktop's terminal is told, and the way back.

    Beside each, in turn, a key between two terminals of the desktop: what the link adds is the difference.
    """
    with tempfile.TemporaryDirectory(prefix="hhd-bench-attach-") as folder:
        net = Net(("laptop", "desktop"), Path(folder), emulated)
        try:
            laptop, desktop = net["laptop"], net["desktop"]
            for host in (laptop, desktop):
                model = script(host.folder / "script.jsonl", [says(text("So?"))])
                (host.folder / "config").mkdir()
                (host.folder / "config" / "config.toml").write_text(f'[model]\nname = "{model}"\n')
                os.chmod(host.folder / "config" / "config.toml", 0o600)
            pair(net, "laptop", "desktop")
            with laptop.daemon(), desktop.daemon():
                until(lambda: both_linked(laptop, desktop))
                (desktop.folder / "repo").mkdir()
                begun = desktop.hhd("run", "go", "-C", str(desktop.folder / "repo"), "--detach", "--json").stdout
                session: str = json.loads(begun)["session"]
                until(lambda: json.loads(laptop.hhd("ls", "--json").stdout)["sessions"] != [])
                here = Seat(laptop, session, "far")
                there, beside = Seat(desktop, session, "near"), Seat(desktop, session, "beside")
                out, back, local = [], [], []
                for number in range(KEYS):
                    out.append(_typed(here, there, session, f"out {number}"))
                    local.append(_typed(beside, there, session, f"local {number}"))
                    back.append(_typed(beside, here, session, f"local back {number}"))
                _words(here, there, session, line)
        finally:
            net.close()
    for figure, times in (("typed here, told there", out), ("typed there, told here", back)):
        report(
            f"a key at another device, {figure}, {line} line", COMMAND, "warm", n=KEYS,
            median_ms=round(statistics.median(times), 2), p99_ms=round(percentile(times, 0.99), 2),
            between_two_at_the_desktop_median_ms=round(statistics.median(local), 2),
            ratio=round(statistics.median(a / b for a, b in zip(times, local, strict=True)), 2),
            added_median_ms=round(statistics.median(a - b for a, b in zip(times, local, strict=True)), 2),
        )  # fmt: skip


def _typed(one: Seat, other: Seat, session: str, line: str) -> float:
    """Milliseconds from a key at one until the other is told."""
    begin = time.perf_counter()
    one.runs.keys(session, line, by=one.by)
    return (other.until(lambda event: isinstance(event, live.Keys) and event.line == line) - begin) * 1000


def _words(here: Seat, there: Seat, session: str, line: str) -> None:
    """Words said at the laptop until the desktop's terminal is told of them."""
    times, whole = [], []
    for number in range(WORDS):
        begin = time.perf_counter()
        here.runs.say(session, f"words {number}", by=here.by)
        whole.append((time.perf_counter() - begin) * 1000)
        told = there.until(lambda event: isinstance(event, live.Said) and event.text == f"words {number}")  # noqa: B023
        times.append((told - begin) * 1000)
    report(
        f"words said at another device, told there, {line} line", COMMAND, "warm", n=WORDS,
        median_ms=round(statistics.median(times), 2), p99_ms=round(percentile(times, 0.99), 2),
        answered_median_ms=round(statistics.median(whole), 2),
    )  # fmt: skip


if __name__ == "__main__":
    main()
