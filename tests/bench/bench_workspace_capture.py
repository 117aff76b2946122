"""Figures of capturing a folder: against `git status`, the bytes of ten changes, a plain folder, 1 GB."""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard
from tests.bench.harness import paired, percentile, report, timed

from hhd.store.store import Limits, Store
from hhd.workspace.capture import capture
from hhd.workspace.memory import Memory
from hhd_protocol.ids import PageId, SessionId, StatementId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture

COMMAND = "python -m tests.bench workspace_capture"
FILES, FOLDERS, CHANGED = 100_000, 500, 10
SESSION = SessionId(StatementId(bytes(32)))
LIMITS = Limits(free_bytes_min=0)
GIT = ("git", "-c", "user.name=Alice", "-c", "user.email=alice@laptop.test", "-c", "gc.auto=0")
SETTLE_SECONDS = 2.5
"""A file younger than two seconds is read again, so what was just written must age before a capture is warm."""


class Folder:
    """A folder of many text files, some of which change."""

    def __init__(self, at: Path) -> None:
        self.at, self.dice = at, random.Random(1)
        words = ["".join(self.dice.choices("etaoinshrdlu", k=self.dice.randint(2, 9))) for _ in range(3000)]
        self.pool = " ".join(self.dice.choices(words, k=40_000)).encode()
        self.names = [at / f"d{n // 5000}/s{n // (FILES // FOLDERS)}/file{n}.txt" for n in range(FILES)]
        for name in self.names:
            name.parent.mkdir(parents=True, exist_ok=True)
            name.write_bytes(self.text(400))

    def text(self, size: int) -> bytes:
        at = self.dice.randrange(len(self.pool) - size)
        return self.pool[at : at + size]

    def change(self) -> list[bytes]:
        """Give ten files other contents of 10 KB; return these."""
        contents = [self.text(10_240) for _ in range(CHANGED)]
        for name, content in zip(self.names[:: FILES // CHANGED], contents, strict=True):
            name.write_bytes(content)
        return contents


class Session:
    """Captures of one folder into a store, each after the one before."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.memory = store, folder, Memory()
        self.last: Ref | None = None
        self.before: Capture | None = None

    def take(self) -> int:
        """Take the next capture into the store; return the sealed bytes it took."""
        taken = 0
        with self.store.transaction():
            writer = self.store.capture_writer(self.store.session(SESSION).family, self.last)
            made = capture(self.folder, self.before, writer.put, memory=self.memory)
            self.last, self.before = writer.finish(made), made
            taken = sum(self.store.objects.size(name) for name in writer.made)
        return taken

    def only_capture(self) -> None:
        """Capture without a store, as `git status` says without writing anything."""
        self.before = capture(self.folder, self.before, lambda raw: PageId(raw[:1] * 32), memory=self.memory)


@contextmanager
def _folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="hhd-bench-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def _git(at: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=at, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def repository() -> None:
    """A repository of 100,000 files, ten changed, warm, against `git status` of it; with line ends watched too."""
    with _folder() as place, Store.open(place / "store", seed=bytes(32), limits=LIMITS) as store:
        store.create_session(SESSION)
        folder = Folder(place / "work")
        _git(folder.at, "init", "-q")
        _git(folder.at, "add", "-A")
        _git(folder.at, "commit", "-qm", "one")
        session = Session(store, folder.at)
        cold = timed(session.take)
        report("first capture of 100,000 files, all commits new to the target", COMMAND, "cold", ms=round(cold))
        folder.change()
        session.take()
        time.sleep(SETTLE_SECONDS)
        session.take()

        def status() -> None:
            subprocess.run(["git", "status"], cwd=folder.at, check=True, stdout=subprocess.DEVNULL)

        measured = paired(session.take, status, 15)
        report(
            "capture of 100,000 files, ten changed, into the store / git status",
            COMMAND,
            "warm",
            **measured,
            target=1.5,
        )
        sizes = []
        for _ in range(15):
            contents = folder.change()
            alone = sum(len(zstandard.ZstdCompressor(level=3).compress(one)) for one in contents)
            together = len(zstandard.ZstdCompressor(level=3).compress(b"".join(contents)))
            sizes.append((session.take(), alone, together))
        ours, alone, together = (statistics.median(column) for column in zip(*sizes, strict=True))
        worst = max((took - 4096) / whole for took, _, whole in sizes)
        report(
            "bytes of ten changed files of 10 KB; their zstd one by one, and together", COMMAND, "warm", n=15,
            bytes=ours, each=alone, together=together, ratio_beyond_4k=round((ours - 4096) / together, 3),
            worst=round(worst, 3), target=1.2,
        )  # fmt: skip
        (folder.at / ".gitattributes").write_text("* text=auto\n")
        session.take()
        session.take()
        measured = paired(session.take, status, 7)
        report("the same, with `* text=auto`: every file looked at", COMMAND, "warm", **measured)


def plain() -> None:
    """A folder that is no repository."""
    with _folder() as place, Store.open(place / "store", seed=bytes(32), limits=LIMITS) as store:
        store.create_session(SESSION)
        folder = Folder(place / "work")
        session = Session(store, folder.at)
        time.sleep(SETTLE_SECONDS)
        report("first capture of a plain folder of 100,000 files", COMMAND, "cold", ms=round(timed(session.take)))
        took, size = [], []
        for _ in range(7):
            folder.change()
            begin = time.perf_counter()
            size.append(session.take())
            took.append((time.perf_counter() - begin) * 1000)
        report(
            "plain folder of 100,000 files, ten changed", COMMAND, "warm", n=7,
            median_ms=round(statistics.median(took)), p99_ms=round(percentile(took, 0.99)),
            bytes=statistics.median(size),
        )  # fmt: skip


def large() -> None:
    """One untracked gigabyte in a process of its own: time against reading it, and memory."""
    with _folder() as place:
        work = place / "work"
        work.mkdir()
        _git(work, "init", "-q")
        (work / "a").write_text("a")
        _git(work, "add", "-A")
        _git(work, "commit", "-qm", "one")
        with open(work / "large", "wb") as target:
            for _ in range(1024):
                target.write(os.urandom(1 << 20))
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _LARGE, str(place / "store"), str(work)], check=True, capture_output=True, text=True
        )
        seconds = time.perf_counter() - begin
        before, peak = map(int, done.stdout.split())
        report(
            "1 GiB untracked into the store, whole process", COMMAND, "warm", n=1, seconds=round(seconds, 1),
            peak_mb=round(peak / 1000), more_than_before_mb=round((peak - before) / 1000), target_mb=100,
        )  # fmt: skip


_LARGE = """
import resource, sys
from pathlib import Path
from tests.bench.bench_workspace_capture import LIMITS, SESSION, peak
from hhd.store.store import Store
from hhd.workspace.capture import capture
with Store.open(Path(sys.argv[1]), seed=bytes(32), limits=LIMITS) as store:
    store.create_session(SESSION)
    writer = store.capture_writer(store.session(SESSION).family, None)
    before = peak()
    made = capture(Path(sys.argv[2]), None, writer.put)
    with store.transaction():
        writer.finish(made)
    print(before, peak())
"""


def peak() -> int:
    """The most memory this process had so far, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Measure and report everything."""
    repository()
    plain()
    large()


if __name__ == "__main__":
    main()
