"""Converting native sessions, against `json.loads` of every line of the input in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from tests.bench.harness import own_folders, paired, process, report
from tests.bench.native_inputs import claude_lines, write

COMMAND = "python -m tests.bench convert"
ONE_PASS = """
import resource, sys
from pathlib import Path
from tests.bench.bench_convert import one_pass
one_pass(Path(sys.argv[1]), Path(sys.argv[1]).parent)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own_folders(folder)
        source = folder / "11111111-2222-4333-8444-555555555555.jsonl"
        for megabytes, n in ((50, 9), (1000, 1)):
            write(source, claude_lines(megabytes * 1_000_000, big_line_bytes=8_000_000))
            found = paired(lambda: one_pass(source, folder), lambda: _loads(source), n, warmup=int(n > 1))
            peak = subprocess.run([sys.executable, "-c", ONE_PASS, str(source)], check=True, capture_output=True)
            rate = round(source.stat().st_size / found["median_ms"] / 1000, 1)
            report(
                f"convert Claude to Codex, {megabytes} MB, read back included, against json.loads of its lines",
                COMMAND,
                "warm",
                **found,
                megabytes_a_second=rate,
                peak_rss_mb=int(peak.stdout),
            )
        small = folder / "22222222-2222-4333-8444-555555555555.jsonl"
        write(small, claude_lines(20_000))
        words = (sys.executable, "-m", "hhd", "native", "convert", str(small), "--to", "codex", "--cwd", name)
        number = iter(range(1000))
        found = paired(
            lambda: process(*words, "--new", "--out", str(folder / f"o{next(number)}"))(),
            process(sys.executable, "-c", "import msgspec"),
            15,
        )
        report("convert a small session, whole command, against import msgspec", COMMAND, "warm", **found)


def one_pass(source: Path, folder: Path) -> None:
    """Convert `source` to a Codex session in a folder below `folder` that is gone afterwards."""
    from hhd.base.box import Box
    from hhd.native.convert.conversion import Converter, Wish
    from hhd.native.convert.history import History
    from hhd.native.opening import open_session
    from hhd_protocol.transcript import Harness

    converter = Converter(
        open_reading=open_session,
        history=History(folder / "history", Box(bytes(32))),
        error_key=b"k" * 32,
        fresh_id=lambda: str(uuid.uuid4()),
    )
    with tempfile.TemporaryDirectory(dir=folder) as home:
        converter.convert(source, Wish(target=Harness.CODEX, home=Path(home), cwd="/home/bob/w", anew=True))


def _loads(source: Path) -> None:
    with open(source, "rb") as file:
        for line in file:
            json.loads(line)
