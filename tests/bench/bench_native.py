"""Native sessions: reading against bare `json.loads`, memory at 1 GB, the list of 5,000 sessions, the last turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness import own_folders, paired, percentile, process, report, timed
from tests.bench.native_inputs import claude_lines, write

from hhd.native.opening import open_session

_MB = 1_000_000
_SESSIONS = 5_000


def main() -> None:
    """Print all figures; needs 2 GB of disk below the temporary folder."""
    with tempfile.TemporaryDirectory(prefix="hhd-bench-") as name:
        folder = Path(name)
        own_folders(folder)
        _read(folder)
        _gigabyte(folder)
        _list(folder)


def _cpu_ms(act: Callable[[], object]) -> float:
    """Processor time of `act` and the processes it waits for: other load stretches it less than the clock."""
    before = os.times()
    act()
    after = os.times()
    return sum(after[:4]) * 1000 - sum(before[:4]) * 1000


def _bare(path: Path) -> None:
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)


def _ours(path: Path) -> int:
    count = 0
    with open_session(path) as reading:
        for _ in reading.items():
            count += 1
        assert reading.account.complete
    return count


def _read(folder: Path) -> None:
    path = folder / "50.jsonl"
    size = write(path, claude_lines(50 * _MB, big_line_bytes=4 * _MB))
    found = paired(lambda: _ours(path), lambda: _bare(path), n=15)
    cpu = [(_cpu_ms(lambda: _ours(path)), _cpu_ms(lambda: _bare(path))) for _ in range(9)]
    speed = round(size / found["median_ms"] / 1000)
    report(
        "read 50 MB to transcript / json.loads per line",
        "open_session(...).items()",
        "warm",
        **found,
        mb_per_s=speed,
        times_as_fast=round(1 / found["ratio"], 2),
        times_as_fast_in_processor_time=round(statistics.median(bare / ours for ours, bare in cpu), 2),
        target="2x as fast",
    )
    path.unlink()


def _gigabyte(folder: Path) -> None:
    path = folder / "aaaaaaaa-0000-4000-8000-000000000001.jsonl"
    size = write(path, claude_lines(1000 * _MB, big_line_bytes=4 * _MB))
    code = (
        "import sys, time, resource\nfrom pathlib import Path\nfrom tests.bench.bench_native import _ours\n"
        "begin = time.perf_counter()\nitems = _ours(Path(sys.argv[1]))\n"
        "print(items, time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    bare = (
        "import sys, time, resource\nfrom pathlib import Path\nfrom tests.bench.bench_native import _bare\n"
        "begin = time.perf_counter()\n_bare(Path(sys.argv[1]))\n"
        "print(0, time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    rows = []
    for _ in range(3):
        pair = [
            subprocess.run(
                [sys.executable, "-c", c, str(path)], capture_output=True, text=True, check=True
            ).stdout.split()
            for c in (code, bare)
        ]
        rows.append(pair)
    seconds = [float(ours[1]) for ours, _ in rows]
    report(
        "read 1 GB to transcript / json.loads per line",
        "open_session(...).items() in a process of its own",
        "warm",
        n=len(rows),
        median_ms=round(statistics.median(seconds) * 1000),
        p99_ms=round(max(seconds) * 1000),
        mb_per_s=round(size / statistics.median(seconds) / _MB),
        times_as_fast=round(statistics.median(float(b[1]) / float(o[1]) for o, b in rows), 2),
        peak_mb=round(max(int(ours[2]) for ours, _ in rows) * 1024 / _MB),
        items=int(rows[0][0][0]),
        target="speed as at 50 MB, peak at most 100 MB",
    )
    act = process(sys.executable, "-m", "hhd", "native", "show", str(path), "--from", "-1")
    act()
    times = [timed(act) for _ in range(15)]
    cpu = [_cpu_ms(act) for _ in range(5)]
    report(
        "last turn of a 1 GB session",
        "hhd native show FILE --from -1 (the whole process)",
        "warm",
        n=len(times),
        median_ms=round(statistics.median(times), 1),
        p99_ms=round(percentile(times, 0.99), 1),
        processor_ms=round(statistics.median(cpu)),
        target="200 ms",
    )
    path.unlink()


def _list(folder: Path) -> None:
    """5,000 files of 1 MB with a real begin and end and a hole between: 5 GB to look at, 160 MB of disk."""
    home = folder / "home"
    for number in range(_SESSIONS):
        project = home / "projects" / f"-home-alice-src-p{number % 100}"
        project.mkdir(parents=True, exist_ok=True)
        raw = b"".join(claude_lines(40_000, seed=number))
        begin = raw[: raw.index(b"\n", 16_000) + 1]
        end = raw[raw.index(b"\n", 20_000) + 1 :]
        with open(project / f"{uuid.UUID(int=number, version=4)}.jsonl", "wb") as file:
            file.write(begin)
            file.seek(_MB - len(end))
            file.write(end)
    own = {
        "CLAUDE_CONFIG_DIR": str(home),
        "CODEX_HOME": str(folder / "none"),
        "PI_CODING_AGENT_DIR": str(folder / "none"),
    }
    os.environ.update(own)
    act = process(sys.executable, "-m", "hhd", "native", "ls")

    def cold() -> None:
        for entry in (folder / "cache").glob("*"):
            entry.unlink()
        act()

    cold()
    for state, one, n, target in (("cold", cold, 5, "2 s"), ("warm", act, 15, "200 ms")):
        times = [timed(one) for _ in range(n)]
        cpu = [_cpu_ms(one) for _ in range(3)]
        report(
            f"list {_SESSIONS} sessions of 1 MB",
            "hhd native ls (the whole process)",
            f"{state} (of hhd's own cache)",
            n=n,
            median_ms=round(statistics.median(times), 1),
            p99_ms=round(percentile(times, 0.99), 1),
            processor_ms=round(statistics.median(cpu)),
            target=target,
        )
