"""Sync beside a session at work: what it slows it down by, and how old the newest checkpoint of the other device is.

Two daemons in network namespaces, each with its sessions' processes on a core of its own, as two devices have. The
session writes one small file after the other: four checkpoints each. Slowdown: so many files with the other device
linked, and with its daemon ended, in turn, either one first; the other device has its files in memory then, since two
devices do not share a disk, and a durable write of one keeps those of the other waiting. Loss window: everything on the
host is killed (SIGKILL) somewhere in the middle, and the age is that of the newest checkpoint that the other device
has, content and all, when its link is gone.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.harness import percentile, report
from tests.e2e.lab import call, says
from tests.net import lab
from tests.net.lab import Host, Net
from tests.net.paired import at, both_linked, linked, until
from tests.net.test_transfer import children, session_of, settled

from hhd.node import store
from hhd_protocol.ids import SessionId, StatementId

COMMAND = "python -m tests.bench sync_busy"
PAIRS, KILLS = 10, 20
FIRST, FILES = 5, 45
"""Files after which the session is in full swing, and those that are timed."""
LINE = "plain, two daemons on a core each"


def pinned(process: int, core: int) -> None:
    """Keep a daemon, and what it begins, on one core, where there are two."""
    if (os.cpu_count() or 1) > 1:
        for task in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(task), {core})


def files_of(host: Host, name: str) -> Path:
    folder = host.folder / name
    folder.mkdir()
    return folder


def begun(host: Host, folder: Path) -> SessionId:
    return SessionId(StatementId(bytes.fromhex(session_of(host, folder))))


def took_ms(host: Host, name: str) -> float:
    """How long a session of that host takes from its fifth file to its fiftieth."""
    folder = files_of(host, name)
    session = begun(host, folder)
    first, last = folder / f"f{FIRST}", folder / f"f{FIRST + FILES}"
    until(last.exists, 300)
    host.hhd("pause", session.hex(), check=False)
    return (last.stat().st_mtime_ns - first.stat().st_mtime_ns) / 1e6


def processor_ms(process: int) -> int:
    """The processor time that a process took so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


def slowdown(laptop: Host, desktop: Host) -> None:
    """Sessions with a peer and without one, in turn."""
    took: dict[bool, list[float]] = {True: [], False: []}
    busy: dict[bool, list[int]] = {True: [], False: []}
    with laptop.daemon() as here:
        pinned(here.pid, 0)
        for number in range(PAIRS + 1):
            for beside in (True, False) if number % 2 else (False, True):
                with desktop.daemon() if beside else contextlib.nullcontext() as there:
                    if there is not None:
                        pinned(there.pid, 1)
                    until(lambda: both_linked(laptop, desktop) if beside else not linked(laptop))  # noqa: B023
                    before = processor_ms(here.pid)
                    took[beside].append(took_ms(laptop, f"{'beside' if beside else 'alone'}{number}"))
                    busy[beside].append(processor_ms(here.pid) - before)
    pairs = list(zip(took[True], took[False], strict=True))[1:]
    report(
        f"session at work, synced / without a peer, {LINE}", COMMAND, "warm", n=len(pairs),
        median_ms=round(statistics.median(a for a, _ in pairs)), p99_ms=round(percentile([a for a, _ in pairs], 0.99)),
        other_median_ms=round(statistics.median(b for _, b in pairs)),
        ratio=round(statistics.median(a / b for a, b in pairs), 3), load=round(os.getloadavg()[0], 1),
        daemon_processor_ms=statistics.median(busy[True][1:]), daemon_alone_ms=statistics.median(busy[False][1:]),
        target="at most 1.05",
    )  # fmt: skip


def newest(host: Host, session: SessionId, begun_ms: int) -> tuple[int, int]:
    """How many checkpoints of a session a host has with their content, and when the newest was made, or all began."""
    with at(host) as me, store.opened(me) as opened:
        ids = opened.checkpoint_ids(session)
        made = (opened.statements.get(session, StatementId(one)) for one in ids)
        return len(ids), max((one.body.at_ms for one in made if one is not None), default=begun_ms)


def loss_window(laptop: Host, desktop: Host) -> None:
    """Kill the host of a busy session, again and again."""
    dice, ages, lacking = random.Random(3), [], []
    with desktop.daemon() as there:
        pinned(there.pid, 1)
        for number in range(KILLS):
            folder = files_of(laptop, f"killed{number}")
            with laptop.daemon() as here:
                pinned(here.pid, 0)
                until(lambda: both_linked(laptop, desktop))
                session, begun_ms = begun(laptop, folder), time.time_ns() // 1_000_000
                until((folder / f"f{FIRST}").exists, 300)
                time.sleep(2 + dice.random())
                killed_ms = time.time_ns() // 1_000_000
                for one in [here.pid, *children(here.pid)]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
                here.wait(30)
            until(lambda: not linked(desktop))
            made, at_ms = newest(desktop, session, begun_ms)
            ages.append(killed_ms - at_ms)
            lacking.append(newest(laptop, session, begun_ms)[0] - made)
            laptop.hhd("rm", session.hex(), "--yes", check=False)
    report(
        f"loss window: age of the newest checkpoint elsewhere, {LINE}", COMMAND, "warm", n=len(ages),
        median_ms=round(statistics.median(ages)), p99_ms=round(percentile(ages, 0.99)), max_ms=max(ages),
        checkpoints_lacking_median=statistics.median(lacking), checkpoints_lacking_max=max(lacking),
        load=round(os.getloadavg()[0], 1), target="at most 1,500 ms",
    )  # fmt: skip


def main() -> None:
    if (why := lab.missing()) is not None:
        print(f"sync_busy: {why}", file=sys.stderr)
        return
    replies = [says(call("write", path=f"f{number}", content=f"{number}\n")) for number in range(2000)]
    for measure in (loss_window, slowdown):
        with tempfile.TemporaryDirectory(prefix="hhd-bench-busy-") as folder:
            net = Net(("laptop", "desktop"), Path(folder), None)
            try:
                other = net["desktop"].folder
                with lab.in_memory(other) if measure is slowdown else contextlib.nullcontext():
                    laptop, desktop = settled(net, "laptop", "desktop", replies=replies)
                    measure(laptop, desktop)
            finally:
                net.close()


if __name__ == "__main__":
    main()
