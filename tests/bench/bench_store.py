"""Figures of the sealed store: commits, size, restoring, opening, checking, importing."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import zstandard
from tests.bench.harness import percentile, report, timed

from hhd.store import layout
from hhd.store.check import Check
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.crypto import seal, unseal
from hhd_protocol.ids import CheckpointId, SessionId
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import SealedObject

COMMAND = "python -m tests.bench store"
PAGES = 4096
SEED, SESSION = bytes(32), SessionId(hashlib.sha256(b"bench").digest())
KEY, NONCE = bytes(32), bytes(24)
LONG = 10_000


class Guest:
    """A 16 MiB memory of JSON-like text, changed page by page in place."""

    def __init__(self, live: int = PAGES) -> None:
        self.dice = random.Random(1)
        words = ["".join(self.dice.choices("etaoinshrdlu", k=self.dice.randint(3, 9))) for _ in range(2000)]
        parts, size = [], 0
        while size < PAGES * PAGE_BYTES:
            text = " ".join(self.dice.choices(words, k=self.dice.randint(5, 60)))
            line = json.dumps({"type": self.dice.choice(["user", "assistant", "tool"]), "id": size, "text": text})
            parts.append(line + "\n")
            size += len(parts[-1])
        self.pool = "".join(parts).encode()[: PAGES * PAGE_BYTES]
        self.live = sorted(self.dice.sample(range(PAGES), live))
        self.memory = bytearray(b"".join(self.fresh() for _ in self.live))

    def fresh(self) -> bytes:
        at = self.dice.randrange(len(self.pool) - PAGE_BYTES)
        return self.pool[at : at + PAGE_BYTES]

    def change(self, count: int, kind: str) -> tuple[list[int], bytes]:
        """Edit 200 bytes of `count` pages, or rewrite them; return their numbers and contents."""
        chosen = sorted(self.dice.sample(range(len(self.live)), min(count, len(self.live))))
        for index in chosen:
            begin = index * PAGE_BYTES
            if kind == "edited":
                at = begin + self.dice.randrange(PAGE_BYTES - 200)
                self.memory[at : at + 200] = self.fresh()[:200]
            else:
                self.memory[begin : begin + PAGE_BYTES] = self.fresh()
        contents = (self.memory[i * PAGE_BYTES : (i + 1) * PAGE_BYTES] for i in chosen)
        return [self.live[i] for i in chosen], b"".join(contents)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            entry="hhd_run",
            memory_bytes=PAGES * PAGE_BYTES,
            page_numbers=self.live,
            pages=[memoryview(self.memory)],
            globals={"g": 1},
            asyncify_stack_bytes=64,
        )


@contextmanager
def made(synchronous: str = "OFF") -> Iterator[Store]:
    """A fresh store with one session."""
    folder = Path(tempfile.mkdtemp(prefix="hhd-bench-"))
    before, layout.SYNCHRONOUS = layout.SYNCHRONOUS, synchronous
    try:
        with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as store:
            store.create_session(SESSION)
            yield store
    finally:
        layout.SYNCHRONOUS = before
        shutil.rmtree(folder)


def squeezed(contents: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(contents)


def commits() -> None:
    """Commit a checkpoint of 50 dirty pages."""
    for kind in ("edited", "rewritten"):
        with made() as store:
            guest, line = Guest(), Line(store, SESSION)
            line.checkpoint(snapshot=guest.snapshot(), changed=[])
            pairs = []
            for number in range(90):
                changed, contents = guest.change(50, kind)
                act = functools.partial(line.checkpoint, snapshot=guest.snapshot(), changed=changed)
                other = functools.partial(_seal_in_one_piece, contents)
                pairs.append(_turn_about(number, act, other))
            _pairs(f"commit, 50 pages {kind}, no fsync / compress and seal them in one piece", pairs[10:], 2.0)
        with made("FULL") as store:
            guest, line = Guest(), Line(store, SESSION)
            line.checkpoint(snapshot=guest.snapshot(), changed=[])
            plain = sqlite3.connect(store.folder / "plain.db", isolation_level=None)
            plain.execute("PRAGMA journal_mode=WAL").fetchall()
            plain.execute("PRAGMA synchronous=FULL")
            plain.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, v BLOB)")
            insert = functools.partial(plain.execute, "INSERT INTO t(v) VALUES(?)", (random.Random(1).randbytes(4096),))
            pairs, alone = [], []
            for number in range(90):
                changed, _ = guest.change(50, kind)
                act = functools.partial(line.checkpoint, snapshot=guest.snapshot(), changed=changed)
                pairs.append(_turn_about(number, act, insert))
                assert line.head is not None
                raw = store.objects.raw(store.checkpoint(line.head).objects[-1]) or b""
                alone.append(_turn_about(number, functools.partial(_write_alone, store, raw), insert))
            one = "one durable 4 KiB SQLite commit"
            _pairs(f"durable commit, 50 pages {kind}, all of it / {one}", pairs[10:], 1.5)
            _pairs(f"durable commit, 50 pages {kind}, the write alone / {one}", alone[10:], 1.5)
            plain.close()


Timed = tuple[float, float]
"""Wall and processor milliseconds."""


def _turn_about(number: int, act: Callable[[], object], other: Callable[[], object]) -> tuple[Timed, Timed]:
    """Time both, each first every second time: who comes first finds cold memory."""
    if number % 2:
        theirs, ours = _both_clocks(other), _both_clocks(act)
    else:
        ours, theirs = _both_clocks(act), _both_clocks(other)
    return ours, theirs


def _both_clocks(act: Callable[[], object]) -> Timed:
    begin = time.process_time()
    wall = timed(act)
    return wall, (time.process_time() - begin) * 1000


def _seal_in_one_piece(contents: bytes) -> bytes:
    return seal(KEY, NONCE, squeezed(contents))


def _write_alone(store: Store, raw: bytes) -> None:
    """The transaction of a checkpoint, with what it stores made before: an object of the same size, and its rows."""
    other = raw[:-32] + os.urandom(32)
    with store.transaction():
        store.objects.put(other)
        store.rows.add("bench", SESSION, other[-8:], bytes(500))
        store.rows.enlist("bench", SESSION, other[-32:])


def _pairs(figure: str, pairs: list[tuple[Timed, Timed]], target: float) -> None:
    ours, theirs = [a[0] for a, _ in pairs], [b[0] for _, b in pairs]
    report(
        figure,
        COMMAND,
        "warm",
        n=len(pairs),
        median_ms=round(statistics.median(ours), 3),
        p99_ms=round(percentile(ours, 0.99), 3),
        other_median_ms=round(statistics.median(theirs), 3),
        ratio=round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3),
        processor_ratio=round(sum(a[1] for a, _ in pairs) / sum(b[1] for _, b in pairs), 3),
        target=target,
    )


def sizes() -> None:
    """The file of 1,000 checkpoints, each 1% of pages scattered, against one frame for each."""
    for live in (410, PAGES):
        for kind, target in (("edited", 0.8), ("rewritten", 1.1)):
            with made() as store:
                guest, line = Guest(live), Line(store, SESSION)
                line.checkpoint(snapshot=guest.snapshot(), changed=[])
                frames = len(squeezed(bytes(guest.memory)))
                for _ in range(999):
                    changed, contents = guest.change(41, kind)
                    line.checkpoint(snapshot=guest.snapshot(), changed=changed)
                    frames += len(squeezed(contents))
                store.database.fold()
                size = (store.folder / layout.FILE).stat().st_size
                report(
                    f"file of 1,000 checkpoints, 41 pages {kind}, {live} pages in use / one zstd frame for each",
                    COMMAND,
                    "warm",
                    n=1,
                    bytes=size,
                    frames_bytes=frames,
                    ratio=round(size / frames, 3),
                    target=target,
                )


def restores() -> None:
    """Restore checkpoints at random positions of a long line."""
    for live, kind, count in (
        (410, "edited", LONG),
        (410, "rewritten", LONG // 4),
        (PAGES, "edited", LONG),
        (PAGES, "rewritten", LONG // 4),
    ):
        with made() as store:
            guest, line = Guest(live), Line(store, SESSION)
            heads: list[CheckpointId] = []
            for _ in range(count):
                changed, _contents = guest.change(41, kind)
                heads.append(line.checkpoint(snapshot=guest.snapshot(), changed=changed))
            sealed = seal(KEY, NONCE, squeezed(bytes(guest.memory)))

            def in_one_piece(sealed: bytes = sealed) -> object:
                return zstandard.ZstdDecompressor().decompress(unseal(KEY, NONCE, sealed))

            found = []
            for head in [heads[-1], *random.Random(2).sample(heads, 11)]:
                act = functools.partial(_restore, store, head)
                pairs = [_turn_about(number, act, in_one_piece) for number in range(8)][1:]
                wall = statistics.median(ours[0] for ours, _ in pairs)
                found.append((statistics.median(a[0] / b[0] for a, b in pairs), wall, pairs))
            found.sort(key=lambda one: one[0])
            ratio, wall, pairs = found[-1]
            processor = [sum(side[1] for pair in one[2] for side in pair[:1]) / len(one[2]) for one in found]
            theirs = statistics.median(other[1] for one in found for _, other in one[2])
            report(
                f"restore any of {count} checkpoints, {live} pages of 4,096 {kind} / unseal and decompress in "
                "one piece",
                COMMAND,
                "warm",
                n=7,
                positions=len(found),
                worst_ratio=round(ratio, 2),
                worst_median_ms=round(wall, 2),
                middle_ratio=round(found[len(found) // 2][0], 2),
                middle_median_ms=round(found[len(found) // 2][1], 2),
                processor_ms=round(statistics.median(processor), 2),
                other_processor_ms=round(theirs, 2),
                target="10 ms" if live < PAGES else 2.0,
            )


def _restore(store: Store, head: CheckpointId) -> Snapshot:
    return Line(store, SESSION, head).snapshot()


def opening() -> None:
    """Open a store of 10,000 sessions and list them."""
    with made() as store:
        with store.transaction():
            for number in range(LONG):
                store.create_session(SessionId(hashlib.sha256(b"%d" % number).digest()))
        folder = store.folder
        store.close()

        def act() -> None:
            with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as again:
                assert len(again.sessions()) == LONG + 1

        times = [timed(act) for _ in range(21)]
        report(
            "open a store of 10,000 sessions and list them",
            COMMAND,
            "warm",
            n=len(times),
            median_ms=round(statistics.median(times), 2),
            p99_ms=round(percentile(times, 0.99), 2),
            target_ms=50,
        )


def checking() -> None:
    """`hhd check` against hashing and unsealing every object."""
    with made() as store:
        guest, line = Guest(), Line(store, SESSION)
        for number in range(400):
            changed, _contents = guest.change(41, "edited" if number % 2 else "rewritten")
            line.checkpoint(snapshot=guest.snapshot(), changed=changed)
        store.database.fold()
        family = store.families.get(store.session(SESSION).family)

        def alone() -> None:
            for number in list(store.objects.numbers()):
                row = store.database.first("SELECT sealed FROM objects WHERE n=?", number)
                assert row is not None and isinstance(row[0], bytes)
                hashlib.sha256(row[0]).digest()
                sealed = SealedObject(row[0])
                for segment in range(sealed.count):
                    sealed.segment(family.key(family.epoch), segment)

        def ours() -> None:
            assert not Check(store).run().findings

        pairs = [_turn_about(number, ours, alone) for number in range(10)]
        _pairs("hhd check / hashing and unsealing alone", pairs[1:], 2.0)


_IMPORT = """
import sys
from pathlib import Path
from hhd.store.store import Limits, Store
from tests.bench.bench_store import SEED, SESSION, import_log
with Store.open(Path(sys.argv[1]), seed=SEED, limits=Limits(free_bytes_min=0)) as store:
    store.create_session(SESSION)
    import_log(store, int(sys.argv[2]))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def import_log(store: Store, megabytes: int) -> None:
    """Import a record log of so many megabytes, as a reader of native sessions would hand it over."""
    from hhd.store.importing import import_log as take

    line = b'{"type":"assistant","text":"' + b"word " * 12_000 + b'"}\n'
    pieces = (b"%d" % number + line for number in range(megabytes * 1_000_000 // len(line)))
    take(store, SESSION, "claude", pieces)


def importing() -> None:
    """Peak memory of a process that imports a 1 GB record log."""
    folder = tempfile.mkdtemp(prefix="hhd-bench-")
    try:
        peaks = []
        for megabytes in (1, 1000):
            command = [sys.executable, "-c", _IMPORT, f"{folder}/{megabytes}", str(megabytes)]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            peaks.append(int(told.stdout) // 1024)
        report(
            "peak memory while importing a 1 GB record log",
            COMMAND,
            "cold",
            n=1,
            peak_mb=peaks[1],
            of_1_mb=peaks[0],
            target_mb=100,
        )
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Print every figure of the store."""
    commits()
    sizes()
    restores()
    opening()
    checking()
    importing()
