"""A write-ahead log left by a crash: a torn end is a power cut, damage before later commits is damage."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.store.conftest import ALICE, SEED, Memory
from tests.store.small import LIMITS, dice

from hhd.store.check import Check
from hhd.store.database import LOG_BYTES, LOG_ROOM_BYTES
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.repair import repair
from hhd.store.store import Store
from hhd.store.wal import Log, read_log


@pytest.fixture
def crashed(tmp_path: Path) -> tuple[Path, list[str]]:
    """A store as a killed process leaves it, with five checkpoints in its write-ahead log."""
    with Store.open(tmp_path / "live", seed=SEED, limits=LIMITS, random=dice(1)) as store:
        store.create_session(ALICE)
        store.database.fold()
        memory, line = Memory(4), Line(store, ALICE)
        heads = []
        for _ in range(5):
            heads.append(line.checkpoint(changed=memory.edit(1), snapshot=memory.snapshot()).hex())
        shutil.copytree(tmp_path / "live", tmp_path / "store", ignore=shutil.ignore_patterns("*-shm"))
    return tmp_path / "store", heads


def _held(folder: Path) -> list[str]:
    with Store.open(folder, seed=SEED, limits=LIMITS) as store:
        assert not Check(store).run().findings
        return [one.hex() for one in store.checkpoint_ids(ALICE)]


def test_a_whole_log_gives_every_commit(crashed: tuple[Path, list[str]]) -> None:
    folder, heads = crashed
    log = read_log(folder / f"{FILE}-wal")
    assert log.hidden == 0 and log.pages
    assert _held(folder) == heads


def test_a_torn_last_commit_is_a_power_cut(crashed: tuple[Path, list[str]]) -> None:
    folder, heads = crashed
    wal = folder / f"{FILE}-wal"
    raw = wal.read_bytes()
    wal.write_bytes(raw[:-100])
    assert read_log(wal).hidden == 0
    assert _held(folder) == heads[:4]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_damage_before_later_commits_is_not_taken_for_a_power_cut(
    crashed: tuple[Path, list[str]], share: float
) -> None:
    folder, heads = crashed
    wal = folder / f"{FILE}-wal"
    raw = bytearray(wal.read_bytes())
    raw[int(len(raw) * share)] ^= 1
    wal.write_bytes(raw)
    assert read_log(wal).hidden > 0
    with pytest.raises(DamagedStoreError, match="write-ahead log"):
        Store.open(folder, seed=SEED, limits=LIMITS)
    assert wal.read_bytes() == raw, "nothing was changed"
    repair(folder, seed=SEED, limits=LIMITS)
    held = _held(folder)
    assert held == heads[: len(held)] and len(held) < 5


def test_what_is_no_log_holds_nothing(tmp_path: Path) -> None:
    for raw in (b"", b"x", bytes(32), bytes(5000)):
        (tmp_path / "wal").write_bytes(raw)
        assert read_log(tmp_path / "wal").pages == {}
    assert read_log(tmp_path / "missing").pages == {}


def test_a_log_that_was_made_long_holds_what_it_held_and_what_comes(store: Store) -> None:
    log = store.folder / f"{FILE}-wal"
    store.rows.put("t", b"", b"before", b"one")
    store.database.lengthen_log()
    assert log.stat().st_size == LOG_BYTES
    with Store.open(store.folder, seed=SEED, limits=LIMITS) as other:
        assert other.rows.get("t", b"", b"before") == b"one"
        other.rows.put("t", b"", b"after", b"two")
        assert store.rows.get("t", b"", b"after") == b"two"
        before = read_log(log)
        assert before.pages and not before.hidden
        store.database.lengthen_log()
        assert log.stat().st_size == LOG_BYTES and read_log(log) == before
        crashed = store.folder.with_name("crashed")
        shutil.copytree(store.folder, crashed)
    with Store.open(crashed, seed=SEED, limits=LIMITS) as again:
        assert again.rows.get("t", b"", b"after") == b"two" and not Check(again).run().findings


def test_a_log_that_was_made_long_and_not_begun_is_no_damage(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", seed=SEED, limits=LIMITS) as made:
        made.rows.put("t", b"", b"k", b"one")
    with Store.open(tmp_path / "store", seed=SEED, limits=LIMITS) as store:
        assert store.rows.get("t", b"", b"k") == b"one"  # Reading begins a log, of no bytes.
        log = store.folder / f"{FILE}-wal"
        assert log.stat().st_size == 0
        store.database.lengthen_log()
        assert log.stat().st_size == LOG_BYTES and read_log(log) == Log()
        shutil.copytree(store.folder, tmp_path / "crashed")
        store.rows.put("t", b"", b"k", b"two")
        assert store.rows.get("t", b"", b"k") == b"two"
    with Store.open(tmp_path / "crashed", seed=SEED, limits=LIMITS) as again:
        assert again.rows.get("t", b"", b"k") == b"one" and not Check(again).run().findings


def test_where_another_process_writes_the_log_stays_as_it_is_and_nobody_waits(store: Store) -> None:
    log = store.folder / f"{FILE}-wal"
    store.rows.put("t", b"", b"k", b"one")
    size = log.stat().st_size
    with Store.open(store.folder, seed=SEED, limits=LIMITS) as other, other.transaction():
        other.rows.put("t", b"", b"k", b"two")
        store.database.lengthen_log()
        assert log.stat().st_size == size
    store.database.lengthen_log()
    assert log.stat().st_size == LOG_BYTES and store.rows.get("t", b"", b"k") == b"two"
    assert store.database.first("PRAGMA busy_timeout") == (15000,), "who writes waits as before"


def test_where_there_is_no_room_for_a_long_log_it_stays_as_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.rows.put("t", b"", b"k", b"one")
    log = store.folder / f"{FILE}-wal"
    size, write = log.stat().st_size, os.pwrite

    def full(to: int, raw: bytes, at: int) -> int:
        write(to, raw[: len(raw) // 2], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    store.database.lengthen_log()
    assert log.stat().st_size == size and store.rows.get("t", b"", b"k") == b"one"
    monkeypatch.undo()
    with monkeypatch.context() as little:
        little.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=LOG_ROOM_BYTES - 1))
        store.database.lengthen_log()
        assert log.stat().st_size == size
    store.database.lengthen_log()
    assert log.stat().st_size == LOG_BYTES
