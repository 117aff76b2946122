"""The daemon with sessions in it: start, idle, many at work, memory of those that wait, a keystroke passed on."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.bench.bench_control import made
from tests.bench.harness import paired, percentile, process, report
from tests.e2e.attached import Daemon, until
from tests.e2e.lab import ALLOW, Device, call, says, script, text

from hhd.control.client import connect
from hhd.node.leftovers import children
from hhd_protocol import live

COMMAND = "python -m tests.bench daemon"
HHD = (sys.executable, "-m", "hhd")
MANY = 50
IDLE_SECONDS = 20.0
QUIET = "import hhd.node.workers as w; w.LINGER_SECONDS = 0.2"
PATIENT = "import hhd.node.workers as w; w.LINGER_SECONDS = 600"


def main() -> None:
    """Report every figure of the daemon."""
    with tempfile.TemporaryDirectory() as folder:
        _ready(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _ls_and_idle(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _many(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _waiting(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _keys(Path(folder))


def _device(folder: Path, config: str = ALLOW) -> Device:
    return Device(home=folder / "laptop", config=config, environ={"HHD_CACHE_HOME": str(folder / "cache")})


def _ready(folder: Path) -> None:
    """From the start of the process until it has answered, with 10,000 sessions in the store."""
    made(folder, 10_000)
    times = []
    lock = folder / "data" / "daemon.lock"
    for _ in range(7):
        begin = time.perf_counter()
        daemon = subprocess.Popen([*HHD, "daemon"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: lock.exists() and lock.read_bytes())
        link = until(lambda: connect(Path(os.fsdecode(lock.read_bytes())), hhd="1"))
        link.ask("status", {})
        times.append((time.perf_counter() - begin) * 1000)
        daemon.terminate()
        daemon.wait()
    report(
        "start to a first answer, 10,000 sessions", COMMAND, "warm", n=len(times), target_ms=1000,
        median_ms=round(statistics.median(times)), p99_ms=round(max(times)),
    )  # fmt: skip


def _ls_and_idle(folder: Path) -> None:
    daemon = Daemon(device=_device(folder), before=QUIET).up()
    try:
        repo = folder / "repo"
        repo.mkdir()
        model = script(daemon.device.home / "s.jsonl", [says(text("So?"))])
        for _ in range(20):
            daemon.attach(daemon.runs.begin("Fix it", folder=repo, model=model).session).until(live.Listening)
        os.environ.update(daemon.device.environ)
        bare = process(sys.executable, "-c", "import click")
        measured = paired(process(*HHD, "ls"), bare, n=25)
        report("hhd ls through the socket, 20 sessions, / import click", COMMAND, "warm", target=1.5, **measured)
    finally:
        daemon.down()
    daemon.up()  # A fresh one, that nobody has asked for anything.
    try:
        time.sleep(2)
        before, begin = _used(daemon.process.pid), time.monotonic()
        time.sleep(IDLE_SECONDS)
        after, seconds = _used(daemon.process.pid), time.monotonic() - begin
        report(
            "idle daemon", COMMAND, "warm", rss_mb=round(after[2] / 2**20, 1), target_mb=60,
            cpu_share=round((after[0] - before[0]) / seconds, 5), target_share=0.001,
            wakeups_per_second=round((after[1] - before[1]) / seconds, 2), target_per_second=1,
        )  # fmt: skip
    finally:
        daemon.down()


def _many(folder: Path) -> None:
    """Fifty sessions that all work at once: how long `hhd ls` takes meanwhile, and whether all get on."""
    daemon = Daemon(device=_device(folder), before=QUIET).up()
    try:
        repo = folder / "repo"
        repo.mkdir()
        (repo / "a.txt").write_text("words\n" * 100)
        steps = [says(text(f"Step {n}."), call("read", path="a.txt")) for n in range(30)]
        model = script(daemon.device.home / "s.jsonl", [*steps, says(text("Done."))])
        first = daemon.attach(daemon.runs.begin("warm", folder=repo, model=model).session)
        first.until(live.Listening)
        begin = time.monotonic()
        ends: list[float] = []

        def follow(session: str) -> None:
            daemon.attach(session, position=None).until(live.Listening)
            ends.append(time.monotonic() - begin)

        threads = []
        for _ in range(MANY):
            session = daemon.runs.begin("work", folder=repo, model=model).session
            threads.append(threading.Thread(target=follow, args=(session,)))
            threads[-1].start()
        os.environ.update(daemon.device.environ)
        times: list[float] = []
        while any(one.is_alive() for one in threads):
            at = time.perf_counter()
            subprocess.run([*HHD, "ls"], check=True, stdout=subprocess.DEVNULL)
            times.append((time.perf_counter() - at) * 1000)
        for one in threads:
            one.join()
        report(
            "hhd ls while 50 sessions work", COMMAND, "warm", n=len(times), target_ms=300,
            median_ms=round(statistics.median(times)), p99_ms=round(percentile(times, 0.99)),
            first_done_s=round(min(ends), 1), last_done_s=round(max(ends), 1), done=len(ends),
        )  # fmt: skip
    finally:
        daemon.down()


def _waiting(folder: Path) -> None:
    """Fifty sessions that wait for a model's reply; then fifty that wait for a person."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=256)  # It lets everyone in, and says nothing.
    port = silent.getsockname()[1]
    config = f'[model]\nbase_url = "http://127.0.0.1:{port}"\napi_key = "none"\nallow_plain_http = true\n' + ALLOW
    for figure, before, model in (
        ("waiting for a reply", PATIENT, None),
        ("waiting for a person, its process too", PATIENT, "script"),
        ("waiting for a person", QUIET, "script"),
    ):
        own = folder / figure.replace(" ", "-")  # Those that wait for a reply would go on in the next one.
        daemon = Daemon(device=_device(own, config), before=before).up()
        try:
            repo = own / "repo"
            repo.mkdir()
            scripted = script(daemon.device.home / "s.jsonl", [says(text("So?"))])
            none = _pss(daemon)
            for _ in range(MANY):
                session = daemon.runs.begin("work", folder=repo, model=model and scripted).session
                one = daemon.attach(session)
                if model:
                    one.until(live.Listening)
                else:
                    one.until(live.Emitted, lambda said: b'"event":"turn"' in said.piece)
                one.close()
            if before == QUIET:
                until(lambda daemon=daemon: not daemon.workers())
            time.sleep(4)  # They give back what they do not need.
            all_of_them = _pss(daemon)
            report(
                f"memory (PSS) of {MANY} sessions {figure}, over none", COMMAND, "warm",
                all_mb=round((all_of_them - none) / 2**20, 1), target_mb=150, processes=len(daemon.workers()),
                each_mb=round((all_of_them - none) / MANY / 2**20, 2), target_each_mb=3,
            )  # fmt: skip
        finally:
            daemon.down()
    silent.close()


def _keys(folder: Path) -> None:
    daemon = Daemon(device=_device(folder), before=PATIENT).up()
    try:
        repo = folder / "repo"
        repo.mkdir()
        session = daemon.runs.begin("x", folder=repo, model=script(folder / "s.jsonl", [says(text("So?"))])).session
        one, other = daemon.attach(session, by="one"), daemon.attach(session, by="other")
        other.until(live.Listening)
        types, times = daemon.runs, []
        for number in range(300):
            place, begin = other.place, time.perf_counter()
            types.keys(session, f"line {number}", by="one")
            other.until(live.Keys, since=place)
            times.append((time.perf_counter() - begin) * 1000)
        assert not one.of(live.Keys)
        report(
            "a keystroke to the other terminal", COMMAND, "warm", n=len(times), target_p95_ms=30,
            median_ms=round(statistics.median(times), 2), p95_ms=round(percentile(times, 0.95), 2),
            p99_ms=round(percentile(times, 0.99), 2),
        )  # fmt: skip
    finally:
        daemon.down()


def _used(process: int) -> tuple[float, int, int]:
    """Processor seconds, times that a thread was woken, and resident bytes of a daemon, with all below it."""
    seconds, woken, resident = 0.0, 0, 0
    for one in (process, *children(process)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        resident += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        for thread in Path(f"/proc/{one}/task").iterdir():
            status = (thread / "status").read_text()
            woken += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return seconds, woken, resident


def _pss(daemon: Daemon) -> int:
    """The memory of the daemon and all its processes, what they share counted once."""
    total = 0
    zygotes = children(daemon.process.pid)
    for one in (daemon.process.pid, *zygotes, *(worker for zygote in zygotes for worker in children(zygote))):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


if __name__ == "__main__":
    main()
