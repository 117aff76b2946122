"""Handoffs between two daemons in network namespaces: the whole command, and how long the session did not run.

A small repository with one file changed, peers that are synced; on a plain line, and on one of 100 Mbit/s, 5 ms and
0.5% loss. Beside it the same command told only to ask (`--dry-run`): what the command line and one answer take.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.harness import percentile, report, timed
from tests.e2e.lab import call, repository, says, script, text
from tests.net import lab
from tests.net.lab import Emulated, Host, Net
from tests.net.paired import both_linked, pair, until

COMMAND = "python -m tests.bench handoff"
ROUNDS = 20
LINES = {"plain": None, "100 Mbit/s, 5 ms, 0.5% loss": Emulated(rate_mbit=100, delay_us=5000, loss_percent=0.5)}
PENDING = [says(call("glob", pattern="*")), says(call("bash", command="echo x >> runs")), says(text("Done."))]


def settled(net: Net) -> list[Host]:
    """Two hosts of one group, whose sessions wait for a yes."""
    hosts = list(net.hosts.values())
    for host in hosts:
        model = script(host.folder / "script.jsonl", PENDING)
        (host.folder / "config").mkdir()
        (host.folder / "config" / "config.toml").write_text(f'[model]\nname = "{model}"\n[policy]\nallow = ["glob"]\n')
        os.chmod(host.folder / "config" / "config.toml", 0o600)
    pair(net, *net.hosts)
    return hosts


def shown(host: Host, session: str) -> dict[str, object]:
    """What `hhd show` says of a session."""
    said = host.hhd("show", session, "--json", check=False).stdout
    found: dict[str, object] = json.loads(said)
    return found


def settled_in(host: Host, session: str) -> bool:
    """Whether the files of a session appeared there."""
    return shown(host, session).get("folder") != ""


def measure(line: str, emulated: Emulated | None) -> None:
    """Hand one session there and back, again and again."""
    with tempfile.TemporaryDirectory(prefix="hhd-bench-handoff-") as folder:
        net = Net(("laptop", "desktop"), Path(folder), emulated)
        try:
            at, to = settled(net)
            repo = repository(at.folder / "repo")
            with at.daemon(), to.daemon():
                until(lambda: both_linked(at, to))
                said = at.hhd("run", "go", "-C", str(repo), "--detach", "--json").stdout
                session: str = json.loads(said)["session"]
                until(lambda: shown(at, session).get("state") == "waiting for you")
                until(lambda: "error" not in shown(to, session))
                whole, asked, pauses = [], [], []
                for number in range(ROUNDS):
                    there = Path(str(shown(at, session)["folder"]))
                    (there / "notes").write_text(f"{number}\n")
                    source, target = at, to
                    asked.append(timed(partial(source.hhd, "transfer", session, target.name, "--dry-run", "--json")))
                    begin = time.perf_counter()
                    steps = source.hhd("transfer", session, target.name, "--json").stdout.splitlines()
                    whole.append((time.perf_counter() - begin) * 1000)
                    pauses.append(json.loads(steps[-1])["pause_ms"])
                    until(partial(settled_in, target, session))
                    at, to = to, at
        finally:
            net.close()
    report(
        f"a session handed to another device, whole command, {line}",
        COMMAND,
        "warm",
        n=ROUNDS,
        median_ms=round(statistics.median(whole), 1),
        p99_ms=round(percentile(whole, 0.99), 1),
        pause_median_ms=statistics.median(pauses),
        pause_p99_ms=percentile(pauses, 0.99),
        asking_only_median_ms=round(statistics.median(asked), 1),
        ratio_to_asking=round(statistics.median(a / b for a, b in zip(whole, asked, strict=True)), 2),
    )


def main() -> None:
    if (why := lab.missing()) is not None:
        print(f"handoff: {why}", file=sys.stderr)
        return
    for line, emulated in LINES.items():
        measure(line, emulated)


if __name__ == "__main__":
    main()
