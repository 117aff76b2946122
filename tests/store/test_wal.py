"""A write-ahead log left by a crash: a torn end is a power cut, damage before later commits is damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED, Memory
from tests.store.small import LIMITS, dice

from hhd.store.check import Check
from hhd.store.database import FILE
from hhd.store.errors import DamagedStoreError
from hhd.store.line import Line
from hhd.store.repair import repair
from hhd.store.store import Store
from hhd.store.wal import read_log


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
