"""Two daemons in network namespaces: how soon they are linked, and what it costs that they are (Linux, as root)."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.harness import percentile, report
from tests.net import lab as laboratory
from tests.net.clocks import Clock
from tests.net.lab import Host, Net
from tests.net.paired import both_linked, pair, until

COMMAND = "python -m tests.bench peers"
STARTS = 12
WAKES = 12
IDLE_SECONDS = 30.0


def said_at(host: Host, event: str, since: float) -> float | None:
    """When the log of a host first says this after `since`; None: it did not yet."""
    log = host.folder / "data/logs/daemon.jsonl"
    for line in log.read_text().splitlines() if log.exists() else ():
        said = json.loads(line)
        if said["event"] == event:
            whole, _, milliseconds = said["at"].removesuffix("Z").partition(".")
            at = time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) - time.timezone + int(milliseconds) / 1000
            if at >= since:
                return at
    return None


def until_linked(net: Net, since: float) -> float:
    """Wait until both say so; milliseconds since then."""
    hosts = list(net.hosts.values())
    until(lambda: all(said_at(host, "linked", since) is not None for host in hosts), 60)
    return max(said_at(host, "linked", since) or 0.0 for host in hosts) * 1000 - since * 1000


@contextlib.contextmanager
def two() -> Iterator[Net]:
    """Two hosts whose devices are of one group."""
    with tempfile.TemporaryDirectory() as folder:
        net = Net(("laptop", "desktop"), Path(folder), None)
        try:
            pair(net, "laptop", "desktop")
            yield net
        finally:
            net.close()


def starts() -> None:
    """Both are started at the same moment: knowing nothing of where the other one is, and then as they were linked."""
    first: tuple[list[float], list[float]] = [], []
    again: tuple[list[float], list[float]] = [], []
    for number in range(STARTS + 1):
        with two() as net:
            for times, later in (first, again):
                since = time.time()
                processes = [host.popen(sys.executable, "-m", "hhd", "daemon") for host in net.hosts.values()]
                took = until_linked(net, since)
                if number:  # The first one compiles and fills caches.
                    times.append(took)
                    begun = max(said_at(host, "started", since) or 0.0 for host in net.hosts.values())
                    later.append(took - (begun - since) * 1000)
                for process in processes:
                    net.end(process)
    for what, (times, later) in (("knowing no address", first), ("knowing the last one", again)):
        tell(f"two daemons, {what}, from start to linked", times, target_ms=2000)
        tell("the same, from when the later one said that it had started", later)


def wakes() -> None:
    """Both wake from a day of sleep at the same moment, and one has another address."""
    times = []
    with two() as net:
        laptop, desktop = net["laptop"], net["desktop"]
        for host in (laptop, desktop):  # Else the link goes over IPv6 and stays as it is.
            host.run("ip", "-6", "addr", "flush", "dev", "lan0")
        clocks = [Clock(laptop), Clock(desktop)]
        with laptop.daemon(**clocks[0].environment), desktop.daemon(**clocks[1].environment):
            until(lambda: both_linked(laptop, desktop))
            for number in range(WAKES):
                time.sleep(3.0)  # The clocks are looked at twice a second: not always at the same moment.
                time.sleep(0.1 * number % 0.5)
                for clock in clocks:
                    clock.sleep(86400)
                since = time.time()
                net.move("laptop", f"10.77.0.{100 + number}")
                date = 86400 * (number + 1)
                times.append(until_linked_dated(net, since, date))
    tell("two daemons, from waking (one at another address) to linked", times, target_ms=1500)


def until_linked_dated(net: Net, since: float, ahead: int) -> float:
    """As `until_linked`, where the dates of both hosts are so many seconds ahead."""
    return until_linked(net, since + ahead)


def idle() -> None:
    """What a daemon with one peer takes while nothing happens."""
    with two() as net:
        laptop, desktop = net["laptop"], net["desktop"]
        with laptop.daemon() as one, desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            time.sleep(5.0)
            ticks, sent = cpu_seconds(one.pid), sum(net.sent(name)[1] for name in net.hosts)
            begin = time.monotonic()
            time.sleep(IDLE_SECONDS)
            seconds = time.monotonic() - begin
            used = cpu_seconds(one.pid) - ticks
            told = sum(net.sent(name)[1] for name in net.hosts) - sent
            rollup = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
            resident = int(rollup.split("Rss:")[1].split()[0]) / 1024
            report("idle with one peer, resident MB", COMMAND, "warm", value=round(resident, 1), target=70)
            report(
                "idle with one peer, % of a core", COMMAND, "warm", value=round(100 * used / seconds, 3), target=0.15
            )
            report(
                "idle with one peer, bytes a second both ways", COMMAND, "warm", value=round(told / seconds), target=100
            )


def cpu_seconds(process: int) -> float:
    """Processor time of a process and of its threads, exactly (the kernel's ticks are of 10 ms)."""
    total = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def tell(figure: str, times: list[float], **more: object) -> None:
    """Report milliseconds by median, p95 and the worst."""
    report(
        figure,
        COMMAND,
        "warm",
        n=len(times),
        median_ms=round(percentile(times, 0.5)),
        p95_ms=round(percentile(times, 0.95)),
        worst_ms=round(max(times)),
        load=round(os.getloadavg()[0], 1),
        **more,
    )


def main() -> None:
    """Report start, wake and idle."""
    if (why := laboratory.missing()) is not None:
        print(f"peers: {why}", file=sys.stderr)
        return
    starts()
    wakes()
    idle()


if __name__ == "__main__":
    main()
