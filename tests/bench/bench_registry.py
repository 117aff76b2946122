"""Figures of lists and of the shared document: `hhd ls` as a whole process, size and loading after many edits."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.bench.harness import paired, percentile, process, report, timed
from tests.registry.memory import Memory

from hhd.node import listing, registry
from hhd.node.listing import Listed, State
from hhd.node.registry import StoreShelf
from hhd.node.store import opened
from hhd.registry import registry as module
from hhd.registry.registry import Registry
from hhd.registry.shelf import Shown
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId

COMMAND = "python -m tests.bench registry"
SESSIONS, EDITS = 10_000, 20
NOW_MS = 1_800_000_000_000
WORDS = ("fix", "parser", "login", "release", "notes", "tests", "speed", "of", "the", "import", "crash", "sort", "page")


class Plain(Memory):
    """A shelf that shows nothing and forgets nothing: what is left is the registry's own time."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self._depth = 1
        yield

    def show(self, shown: Shown, mark: bytes) -> None:
        pass


def session(number: int) -> SessionId:
    """The id of one of the sessions."""
    return SessionId(StatementId(hashlib.sha256(b"%d" % number).digest()))


def title(dice: random.Random) -> str:
    """A title as a person gives it."""
    return " ".join(dice.choices(WORDS, k=dice.randint(2, 5))) + f" {dice.randrange(1000)}"


def listed(number: int, device: DeviceId, dice: random.Random) -> Listed:
    """A line of a list."""
    return Listed(
        id=session(number),
        title=title(dice),
        program="agent",
        state=dice.choice([State.PAUSED, State.FINISHED, State.WAITING]),
        owner=device,
        token=dice.randint(1, 9),
        heads=1 + (dice.random() < 0.02),
        at_ms=NOW_MS - dice.randrange(10**11),
        turns=dice.randrange(300),
        waiting="bash(npm test)" if dice.random() < 0.3 else "",
        folder=f"/home/alice/src/project-{dice.randrange(60)}",
    )


def lists() -> None:
    """`hhd ls` of ten thousand sessions, whole process."""
    dice = random.Random(1)
    with opened() as store, store.transaction():
        for number in range(SESSIONS):
            store.rows.enlist("directory", b"", session(number))
        store.catalogue.refill(
            (one.id, one.encoded()) for one in (listed(n, store.device, dice) for n in range(SESSIONS))
        )
    # A program that is installed has its bytecode; where Python is told to write none, compiling would be measured.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ["HHD_CACHE_HOME"], "bytecode")
    command = (sys.executable, "-m", "hhd", "ls")
    figures = paired(process(*command), process(sys.executable, "-c", "import click"), n=40, warmup=3)
    report(
        "hhd ls of 10,000 sessions, whole process / import click", COMMAND, "warm", target="at most 150 ms", **figures
    )
    figures = paired(process(*command, "crash"), process(sys.executable, "-c", "pass"), n=40, warmup=3)
    report("hhd ls WORD of 10,000 sessions / python -c pass", COMMAND, "warm", **figures)


def edited() -> tuple[Plain, float]:
    """A registry after `EDITS` edits of each session in no order, and the milliseconds of an edit."""
    dice, shelf = random.Random(2), Plain("laptop")
    order = [number for number in range(SESSIONS) for _ in range(EDITS)]
    dice.shuffle(order)
    begin = time.perf_counter()
    with mock.patch.object(module, "PIECES_MAX", 10**9):  # Packing the whole is measured apart.
        one = Registry(shelf)
        for number in order:
            what, of = dice.random(), session(number)
            if what < 0.5:
                one.rename(of, title(dice))
            elif what < 0.75:
                one.archive(of, dice.random() < 0.5)
            elif what < 0.97 or number % 10:
                one.wish(of, shelf.device, dice.random() < 0.5)
            else:
                one.pick(of, CheckpointId(StatementId(dice.randbytes(32))))
        took = (time.perf_counter() - begin) * 1000 / len(order)
        with shelf.transaction():
            one._keep_all(whole=True)
    return shelf, took


def document() -> None:
    """Size on disk, loading, and one more edit of a document of ten thousand sessions."""
    shelf, each = edited()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(Store.open(folder / "store", seed=bytes(32), limits=Limits(free_bytes_min=0)))
        before = store.database.bytes_used()
        with store.transaction():
            assert shelf.marked is not None
            StoreShelf(store).replace(shelf.pieces[0], shelf.marked)
        used, one = store.database.bytes_used() - before, registry.opened(store)
        registry.catch_up(store)
        lists = store.database.bytes_used() - before - used
        loading = [timed(lambda: registry.opened(store).refresh()) for _ in range(25)]
        begin = time.process_time()
        registry.opened(store).refresh()
        processor = (time.process_time() - begin) * 1000
        report(
            "registry of 10,000 sessions with 20 edits each: loading it",
            COMMAND, "warm", target="at most 300 ms", processor_ms=round(processor, 1), **_times(loading),
        )  # fmt: skip
        report(
            "the same, on disk", COMMAND, "warm", target="at most 1 MB", piece_bytes=len(shelf.pieces[0]),
            both_copies_bytes=used, lists_bytes=lists, entries=one.refresh().size(),
            changes=len(one.refresh().changes()),
        )  # fmt: skip
        dice = random.Random(3)
        listing.put(store, listed(5, store.device, dice))
        editing = [timed(lambda: one.rename(session(5), title(dice))) for _ in range(100)]
        report(
            "one more edit, kept and shown", COMMAND, "warm", without_store_ms=round(each, 3), **_times(editing)
        )  # fmt: skip
    changes = grown(shelf)
    report(
        "the same just before its history is given up, the last changes not packed: on disk", COMMAND, "warm",
        target="at most 1 MB", both_copies_bytes=both_copies(shelf), pieces=len(shelf.pieces), changes=changes,
    )  # fmt: skip


def both_copies(shelf: Plain) -> int:
    """What the pieces of a shelf take in a store of their own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "store", seed=bytes(32), limits=Limits(free_bytes_min=0)) as store,
    ):
        before = store.database.bytes_used()
        assert shelf.marked is not None
        with store.transaction():
            kept = StoreShelf(store)
            kept.replace(shelf.pieces[0], shelf.marked)
            for piece in shelf.pieces[1:]:
                kept.append(piece, shelf.marked)
        return store.database.bytes_used() - before


def grown(shelf: Plain) -> int:
    """Edit on until the next change would give up the history, as many as may be in pieces; return the changes."""
    dice, one = random.Random(4), Registry(shelf)
    one.refresh()
    most = max(module.HISTORY_MIN, len(one._registers.live) // 16) - 1
    while one._history < most:
        if one._history == most - module.PIECES_MAX + 1:
            with shelf.transaction():
                one._keep_all(whole=True)
        one.rename(session(dice.randrange(SESSIONS)), title(dice))
    return len(one.refresh().changes())


def _times(times: list[float]) -> dict[str, float]:
    return {
        "n": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p99_ms": round(percentile(times, 0.99), 1),
    }


def main() -> None:
    """Measure all."""
    with tempfile.TemporaryDirectory() as home:
        folders = {f"HHD_{kind}_HOME": str(Path(home) / kind.lower()) for kind in ("CONFIG", "DATA", "CACHE")}
        with mock.patch.dict(os.environ, folders):
            lists()
    document()


if __name__ == "__main__":
    main()
