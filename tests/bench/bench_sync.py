"""Sync between two processes: a step until it is durable there, bytes of it, a first sync, a reconnect.

python -m tests.bench sync     on a plain link; with root over emulated lines too, with rsync and Syncthing beside it
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.bench import sync_others
from tests.bench.bench_links import context
from tests.bench.harness import own_folders, percentile, report
from tests.net.lab import Emulated, Host, Net, missing
from tests.node.sync.linked import Idle, Peering, grouped, opened
from tests.node.sync.wired import Grown
from tests.store.conftest import Memory
from tests.transports.devices import device_named

from hhd.node import programs, sessions
from hhd.node.sync.syncing import Syncing
from hhd.store.store import Store
from hhd_protocol.abi import Snapshot
from hhd_protocol.compression import compressor
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.limits import PAGE_BYTES

COMMAND = "python -m tests.bench sync"
PAGES, CHANGED, STEPS = 2048, 20, 60
"""8 MiB, one page in a hundred."""
MANY = 2000
FIRST_PAGES = 16384
LINES = {
    "plain": None,
    "1 Gbit/s, 1 ms": Emulated(rate_mbit=1000, delay_us=500),
    "100 Mbit/s, 5 ms, 0.5%": Emulated(rate_mbit=100, delay_us=2500, loss_percent=0.5),
}


def opened_to_sync(folder: Path, name: str) -> Store:
    """As the daemon opens it for sync."""
    store = opened(folder, name)
    store.database.lengthen_log()
    return store


class Prepared(Memory):
    """Memory whose snapshot is taken before the clock runs: a guest's pages lie in one piece, and not in a dict."""

    ready: Snapshot | None = None

    def prepare(self) -> None:
        self.ready = super().snapshot()

    def snapshot(self) -> Snapshot:
        ready, self.ready = self.ready, None
        return ready or super().snapshot()


@asynccontextmanager
async def syncing(folder: Path, name: str) -> AsyncIterator[tuple[Peering, Syncing, Idle]]:
    """The part of a daemon, running."""
    own_folders(folder / name)
    (folder / name / "data").mkdir(parents=True, exist_ok=True)
    peers, workers = Peering(name), Idle()
    part = Syncing(
        me=device_named(name), peers=peers, roll=peers, workers=workers, opened=lambda: opened_to_sync(folder, name),
        random=os.urandom,
    )  # fmt: skip
    running = asyncio.create_task(part.run())
    await part._ready.wait()
    try:
        yield peers, part, workers
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def database(path: Path) -> sqlite3.Connection:
    """What one durable write is compared with: one blob, one commit."""
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("PRAGMA synchronous=FULL")
    made.execute("CREATE TABLE IF NOT EXISTS blobs(raw BLOB)")
    return made


def write(to: sqlite3.Connection, raw: bytes) -> None:
    to.execute("BEGIN IMMEDIATE")
    to.execute("INSERT INTO blobs VALUES(?)", (raw,))
    to.execute("COMMIT")


async def desktop(folder: Path) -> None:
    """The other process: takes what comes until its input ends; beside it plain TLS, durable or not."""
    blobs = database(folder / "desktop-blobs")

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                durable, size = await reader.readexactly(1), int.from_bytes(await reader.readexactly(4), "big")
                left = size
                if durable == b"d":
                    write(blobs, await reader.readexactly(size))
                while durable != b"d" and left:
                    left -= len(await reader.read(min(left, 1 << 18)))
                writer.write(b"k")

    async with syncing(folder, "desktop") as (peers, _, _):
        listener = await peers.transport.listen(peers.keep)
        server = await asyncio.start_server(plain, "0.0.0.0", 0, ssl=context(True), limit=1 << 20)
        print(listener.port, server.sockets[0].getsockname()[1], flush=True)
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        await listener.close()


async def laptop(folder: Path, where: str, port: int, plain_port: int, line: str, rtt: bool) -> None:
    """Measure against the other process at `where`."""
    target = device_named("desktop").id
    me = device_named("laptop")
    reader, writer = await asyncio.open_connection(where, plain_port, ssl=context(False), limit=1 << 20)

    async def ping(raw: bytes, how: bytes) -> float:
        begin = time.perf_counter()
        writer.write(how + len(raw).to_bytes(4, "big") + raw)
        await reader.readexactly(1)
        return (time.perf_counter() - begin) * 1000

    async with syncing(folder, "laptop") as (peers, part, workers):
        with opened(folder, "laptop") as store:
            begin = time.perf_counter()
            link = asyncio.create_task(_linked(peers, where, port, target))
            while target not in part.answered.by:
                await asyncio.sleep(0.0005)
            took = (time.perf_counter() - begin) * 1000
            shakes = []
            for _ in range(5):
                begin = time.perf_counter()
                (await asyncio.open_connection(where, plain_port, ssl=context(False)))[1].close()
                shakes.append((time.perf_counter() - begin) * 1000)
            trips = [await ping(b"x" * 64, b"n") for _ in range(30)]
            counted = part._engine.counted[target]
            report(
                f"sync reconnect, {line}", COMMAND, "warm", sessions=len(store.sessions()), n=1, ms=round(took, 1),
                round_trip_ms=round(statistics.median(trips), 2), tls_alone_ms=round(statistics.median(shakes), 1),
                bytes=counted.sent + counted.received,
                target="30 ms + 3 round trips (dial and handshake included here), 3 KB",
            )  # fmt: skip
            session = sessions.create(store, me, program="agent", args=programs.encode_args({"prompt": "go"}))
            memory = Prepared(PAGES)
            grown = Grown(store, me, session, memory)
            grown.step(list(memory.pages))
            workers.on_step[0](session)
            await part.wait_synced(session, target)
            for kind in ("scattered", "hot"):
                await _steps(part, workers, grown, session, target, ping, line, kind, folder)
            await _first(part, workers, store, target, ping, line)
        link.cancel()


async def _linked(peers: Peering, where: str, port: int, target: DeviceId) -> None:
    await peers.keep(await peers.transport.dial(where, port, target))


async def _steps(
    part: Syncing, workers: Idle, grown: Grown, session: SessionId, target: DeviceId,
    ping: Callable[[bytes, bytes], Awaitable[float]], line: str, kind: str, folder: Path,
) -> None:  # fmt: skip
    """A checkpoint with 1% of the pages changed, until the other side said that it is durable there."""
    dice, memory = random.Random(kind), grown.memory
    assert isinstance(memory, Prepared)
    blobs = database(folder / "laptop-blobs")
    counted = part._engine.counted[target]
    hot = sorted(dice.sample(range(PAGES), CHANGED))
    pairs: list[tuple[float, float]] = []
    bytes_of: list[tuple[int, int]] = []
    for step in range(STEPS + 3):
        chosen = hot if kind == "hot" else sorted(dice.sample(range(PAGES), CHANGED))
        old = [memory.pages[number] for number in chosen]
        for number in chosen:
            at = dice.randrange(PAGE_BYTES - 200)
            memory.pages[number] = memory.pages[number][:at] + memory.text()[:200] + memory.pages[number][at + 200 :]
        new = b"".join(memory.pages[number] for number in chosen)
        nearest = len(compressor(b"".join(old), len(new)).compress(new))
        before = counted.sent + counted.received
        memory.prepare()
        begin = time.perf_counter()
        grown.step(chosen)
        workers.on_step[0](session)
        await part.wait_synced(session, target)
        ours = (time.perf_counter() - begin) * 1000
        size = counted.sent + counted.received - before
        begin = time.perf_counter()
        write(blobs, os.urandom(size))
        theirs = (time.perf_counter() - begin) * 1000 + await ping(os.urandom(size), b"d")
        if step >= 3:
            pairs.append((ours, theirs))
            bytes_of.append((size, nearest))
    report(
        f"sync step, {kind} pages, {line}", COMMAND, "warm", n=len(pairs),
        median_ms=round(statistics.median(a for a, _ in pairs), 2),
        p99_ms=round(percentile([a for a, _ in pairs], 0.99), 2),
        other="one TLS round trip + two durable writes of the same bytes",
        other_median_ms=round(statistics.median(b for _, b in pairs), 2),
        ratio=round(statistics.median(a / b for a, b in pairs), 2),
        bytes=round(statistics.median(a for a, _ in bytes_of)),
        nearest_bytes=round(statistics.median(b for _, b in bytes_of)),
        bytes_allowed_share=round(max(a / (1.15 * b + 2048) for a, b in bytes_of), 3),
        target="plain: ratio 3; emulated: 3 round trips + 20 ms; bytes: 1.15 x nearest + 2 KB (share 1)",
    )  # fmt: skip


async def _first(
    part: Syncing, workers: Idle, store: Store, target: DeviceId,
    ping: Callable[[bytes, bytes], Awaitable[float]], line: str,
) -> None:  # fmt: skip
    """64 MiB that do not shrink, the first time, against as many bytes over plain TLS."""
    pages = FIRST_PAGES if line != "100 Mbit/s, 5 ms, 0.5%" else FIRST_PAGES // 4
    me = device_named("laptop")
    raw = os.urandom(pages * PAGE_BYTES)
    plain = [await ping(raw, b"n") for _ in range(2)]
    session = sessions.create(store, me, program="agent", args=programs.encode_args({"prompt": "go"}))
    memory = Memory(0)
    memory.pages = {number: os.urandom(PAGE_BYTES) for number in range(pages)}
    grown = Grown(store, me, session, memory)
    grown.step(
        list(memory.pages)
    )  # The loop stands still from here on: nobody looks what others wrote before it is timed.
    begin = time.perf_counter()
    workers.on_step[0](session)
    await part.wait_synced(session, target)
    ours = (time.perf_counter() - begin) * 1000
    report(
        f"sync first {pages * PAGE_BYTES >> 20} MiB, {line}", COMMAND, "warm", n=1, ms=round(ours),
        other="plain asyncio TLS, nothing kept", other_ms=round(min(plain)), share=round(min(plain) / ours, 2),
        target="at least 0.5",
    )  # fmt: skip


@contextmanager
def folders() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hhd-bench-sync-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def many(folder: Path) -> None:
    """Sessions that both devices have, so that a reconnect finds nothing new."""
    me = device_named("laptop")
    with opened(folder, "laptop") as store, store.transaction():
        for number in range(MANY):
            sessions.create(store, me, program="agent", args=programs.encode_args({"prompt": f"number {number}"}))
    desktop_folder = folder / "desktop" / "store"
    with opened(folder, "laptop") as one, opened(folder, "desktop") as other:
        from hhd.node.sync.content import Content
        from hhd.node.sync.intake import Intake
        from hhd.store.openings import Openings
        from hhd_protocol.sync.messages import Entry, Statements

        theirs = device_named("desktop")
        intake = Intake(other, theirs, Content(other, Openings()))
        with other.transaction():
            for module in one.modules.all():
                other.modules.put(one.modules.get(module))
            for session in one.sessions():
                family = one.session(session).family
                known = one.families.get(family)
                wrapped = known.wrapped(theirs.public, me.seed, one.random)
                other.families.accept(wrapped, by_public=me.public, seed=theirs.seed, current=known.epoch)
                signed = one.statements.all(session)
                checkpoints = {id: one.checkpoint(id) for id in one.checkpoint_ids(session)}
                entries = tuple(
                    Entry(raw=s.raw, payload=checkpoints[s.id].payload.encoded() if s.id in checkpoints else None)  # type: ignore[index]
                    for s in sorted(signed, key=lambda s: s.body.seq)
                )
                objects = tuple(one.objects.raw(n) or b"" for c in checkpoints.values() for n in c.objects)
                intake.statements(me.id, Statements(session=session, entries=entries, objects=objects))
    assert desktop_folder.exists()


def run(line: str, host: tuple[Host, Host] | None) -> None:
    """One pair of processes on one line."""
    with folders() as folder:
        grouped(folder, "laptop", "desktop")
        if host is None:
            many(folder)
        here, there = host if host is not None else (None, None)
        command = [sys.executable, "-m", "tests.bench.bench_sync"]
        piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        begin = [*command, "desktop", str(folder)]
        other = subprocess.Popen(begin, **piped) if there is None else there.popen(*begin, **piped)  # type: ignore[call-overload]
        assert other.stdin is not None and other.stdout is not None
        port, plain = other.stdout.readline().split()
        where = "127.0.0.1" if there is None else there.ip4
        words = [*command, "laptop", str(folder), where, port.decode(), plain.decode(), line]
        try:
            if here is None:
                subprocess.run(words, check=True)
            else:
                ours = here.popen(*words)
                assert ours.wait(900) == 0
        finally:
            other.stdin.close()
            other.wait(30)


def main() -> None:
    run("plain", None)
    if (why := missing()) is not None:
        print(f"emulated lines are left out: {why}", file=sys.stderr)
        return
    for line, emulated in LINES.items():
        with tempfile.TemporaryDirectory(prefix="hhd-bench-net-") as name:
            net = Net(("laptop", "desktop"), Path(name), emulated)
            try:
                if emulated is not None:
                    run(line, (net["laptop"], net["desktop"]))
                sync_others.measure(net["laptop"], net["desktop"], Path(name) / "others", line, COMMAND)
            finally:
                net.close()


if __name__ == "__main__":
    if sys.argv[1] == "desktop":
        asyncio.run(desktop(Path(sys.argv[2])))
    else:
        asyncio.run(laptop(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6], True))
