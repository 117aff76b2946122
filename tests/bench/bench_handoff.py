"""Handoffs between two daemons in network namespaces: the whole command, and how long the session did not run.

The command ends when the session runs there, its files among what appeared; the pause is counted from the wish to rest
to that word. Measured are a small repository with one file changed, peers that are synced, on a plain line and on one
of 100 Mbit/s, 5 ms and 0.5% loss; on that one 8 MiB of noise in the folder, of which 1% did not go before, since sync
was paused; and repositories of 5,000 and 100,000 files with ten changed, the pause held against `git status` in the
same round. The first handoff of each run is told apart: the program is compiled at the target, all files go there.

Beside each command the same told only to ask (`--dry-run`): what the command line and one answer take. On a busy
machine the ratio of the two says something, or the whole run under `chrt -r 5`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.harness import percentile, process, report, timed
from tests.e2e.lab import call, repository, says, script, text
from tests.net import lab
from tests.net.lab import Emulated, Host, Net
from tests.net.paired import both_linked, pair, until

COMMAND = "python -m tests.bench handoff"
ROUNDS = 20
ROUNDS_LARGE, CHANGED = {5_000: 10, 100_000: 5}, 10
NOISE_BYTES, UNSYNCED = 8 * 1024 * 1024, 0.01
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


def came(host: Host, session: str, notes: str) -> bool:
    """Whether what was changed by hand at the source is there."""
    file = Path(str(shown(host, session)["folder"])) / "notes"
    return file.exists() and file.read_text() == notes


def noise(folder: Path, share: float = 1.0) -> None:
    """Write files of bytes that do not compress: all of them, or a `share` anew."""
    folder.mkdir(exist_ok=True)
    count = 100
    for number in range(max(1, int(count * share))):
        (folder / f"{number}.bin").write_bytes(os.urandom(NOISE_BYTES // count))


def grow(repo: Path, files: int) -> None:
    """Commit as many files as a large repository has."""
    for number in range(files):
        file = repo / f"d{number // 1000}" / f"f{number}"
        if number % 1000 == 0:
            file.parent.mkdir()
        file.write_text(f"{number}\n")
    for words in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "many"]):
        subprocess.run(["git", *words], cwd=repo, check=True, stdin=subprocess.DEVNULL)


def scatter(folder: Path, files: int) -> None:
    """Change ten files, here and there."""
    for number in range(CHANGED):
        at = number * files // CHANGED
        (folder / f"d{at // 1000}" / f"f{at}").write_bytes(os.urandom(16).hex().encode())


@dataclass(frozen=True, kw_only=True)
class Round:
    """One handoff: the whole command, the same told only to ask, the pause, and `git status` of the folder, in ms.

    `began`, `ended`: of the command, by the clock of all processes, in ns; `source`: from where.
    """

    whole: float
    asked: float
    pause: int
    status: float
    began: int
    ended: int
    source: str


def handed(
    emulated: Emulated | None,
    *,
    rounds: int,
    begin: Callable[[Path], None] = lambda _: None,
    change: Callable[[Path], None] = lambda _: None,
    held: bool = False,
    beside: bool = False,
) -> list[Round]:
    """Hand one session there and back, `rounds` times after a first one, in which the program is compiled there.

    `begin`: done with its folder before, and `change` before each handoff. `held`: sync is paused while that is done.
    `beside`: `git status` of the folder is timed in each round, too.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="hhd-bench-handoff-") as folder:
        net = Net(("laptop", "desktop"), Path(folder), emulated)
        try:
            at, to = settled(net)
            repo = repository(at.folder / "repo")
            begin(repo)
            with at.daemon(), to.daemon():
                until(lambda: both_linked(at, to))
                said = at.hhd("run", "go", "-C", str(repo), "--detach", "--json").stdout
                session: str = json.loads(said)["session"]
                until(lambda: shown(at, session).get("state") == "waiting for you")
                until(lambda: "error" not in shown(to, session))
                for number in range(rounds + 1):
                    there = Path(str(shown(at, session)["folder"]))
                    source, target = at, to
                    if held:
                        target.hhd("sync", "--pause")
                    (there / "notes").write_text(f"{number}\n")
                    change(there)
                    status = timed(process("git", "-C", str(there), "status", "--porcelain")) if beside else 0.0
                    asked = timed(partial(source.hhd, "transfer", session, target.name, "--dry-run", "--json"))
                    if held:
                        target.hhd("sync", "--resume")
                    began = time.monotonic_ns()
                    steps = source.hhd("transfer", session, target.name, "--json").stdout.splitlines()
                    ended = time.monotonic_ns()
                    pause = json.loads(steps[-1])["pause_ms"]
                    until(partial(settled_in, target, session))
                    until(partial(came, target, session, f"{number}\n"))
                    found.append(
                        Round(
                            whole=(ended - began) / 1e6,
                            asked=asked,
                            pause=pause,
                            status=status,
                            began=began,
                            ended=ended,
                            source=source.name,
                        )
                    )
                    at, to = to, at
        finally:
            net.close()
    return found


def beside_status(found: list[Round]) -> dict[str, float]:
    """Pauses held against `git status` of the same folder in the same round."""
    return {
        "git_status_median_ms": round(statistics.median(one.status for one in found), 1),
        "pause_to_git_status": round(statistics.median(one.pause / one.status for one in found), 2),
    }


def measure(figure: str, emulated: Emulated | None, *, rounds: int = ROUNDS, beside: bool = False, **how: Any) -> None:
    """Print what handoffs took, the first apart; `how`: as for `handed`."""
    first, *found = handed(emulated, rounds=rounds, beside=beside, **how)
    pauses = [one.pause for one in found]
    report(
        f"a session handed to another device, whole command, {figure}",
        COMMAND,
        "warm",
        n=len(found),
        median_ms=round(statistics.median(one.whole for one in found), 1),
        p99_ms=round(percentile([one.whole for one in found], 0.99), 1),
        pause_median_ms=statistics.median(pauses),
        pause_p99_ms=percentile(pauses, 0.99),
        asking_only_median_ms=round(statistics.median(one.asked for one in found), 1),
        ratio_to_asking=round(statistics.median(one.whole / one.asked for one in found), 2),
        first_ms=round(first.whole, 1),
        load=round(os.getloadavg()[0], 1),
        **(beside_status(found) if beside else {}),
    )


def main() -> None:
    if (why := lab.missing()) is not None:
        print(f"handoff: {why}", file=sys.stderr)
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # Else each command would compile what it imports.
    lossy = LINES["100 Mbit/s, 5 ms, 0.5% loss"]
    for line, emulated in LINES.items():
        measure(line, emulated)
    measure(
        "100 Mbit/s, 5 ms, 0.5% loss, 8 MiB of which 1% is not synced",
        lossy,
        begin=lambda repo: noise(repo / "noise"),
        change=lambda folder: noise(folder / "noise", UNSYNCED),
        held=True,
    )
    for files, rounds in ROUNDS_LARGE.items():
        measure(
            f"{files} files, {CHANGED} changed",
            None,
            rounds=rounds,
            begin=partial(grow, files=files),
            change=partial(scatter, files=files),
            beside=True,
        )


if __name__ == "__main__":
    main()
