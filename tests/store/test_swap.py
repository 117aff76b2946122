"""A repair that is killed at any of its steps loses nothing: the next one carries it to its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED
from tests.store.small import LIMITS, Small, everything, small_store

from hhd.base import files
from hhd.base.errors import UserError
from hhd.store import locks
from hhd.store.check import Check
from hhd.store.errors import BusyError, DamagedStoreError
from hhd.store.layout import FILE, MENDED
from hhd.store.repair import repair
from hhd.store.store import Store
from hhd.store.swap import unfinished


class Killed(BaseException):
    """No code handles it, as none handles a kill."""


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    with small_store(seed=0) as made:
        yield made


def damaged(small: Small, *, with_log: bool) -> list[bytes]:
    """Leave the store as a crash would, and its header damaged; return the journal that was promised."""
    small.put(small.raw)
    with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
        if with_log:
            for number in range(3):
                store.rows.append("journal", ALICE, b"only in the log %d" % number)
        left = {name: (small.folder / name).read_bytes() for name in (FILE, f"{FILE}-wal")}
        promised = list(store.rows.log("journal", ALICE))
    small.put(bytes(100) + left[FILE][100:])
    if with_log:
        (small.folder / f"{FILE}-wal").write_bytes(left[f"{FILE}-wal"])
    return promised


def killing(patch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Kill this process at step `at` of those that change names or sync; return where they are counted."""
    count = [0]

    def step(real: Callable[..., object]) -> Callable[..., object]:
        def call(*words: object, **named: object) -> object:
            if count[0] == at:
                raise Killed
            count[0] += 1
            return real(*words, **named)

        return call

    for owner, name in ((os, "rename"), (files, "sync_folder"), (Path, "unlink")):
        patch.setattr(owner, name, step(getattr(owner, name)))
    return count


@pytest.mark.parametrize("with_log", [False, True])
def test_a_repair_killed_at_any_step_is_carried_to_its_end_by_the_next(small: Small, with_log: bool) -> None:
    done = cut = between = 0
    while not done:
        promised = damaged(small, with_log=with_log)
        with pytest.MonkeyPatch.context() as patch:
            count = killing(patch, cut)
            try:
                repair(small.folder, seed=SEED, limits=LIMITS)
                done = count[0]
            except Killed:
                between += not (small.folder / FILE).exists()
        try:
            with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
                clean = not Check(store).run().findings
        except UserError:
            clean = False
        if not clean:
            assert not repair(small.folder, seed=SEED, limits=LIMITS).report.findings
        with Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
            assert not Check(store, read_data=True).run().findings
            content = everything(store)
            assert list(store.rows.log("journal", ALICE)) == promised, f"killed at step {cut}"
            assert {one: len(held) for one, held in content.items()} == {
                one: len(held) for one, held in small.content.items()
            }, f"killed at step {cut}"
        cut += 1
    assert done >= 8 and between >= 2, "also where the old file is away and the new one not yet there"


def test_a_damaged_log_stays_as_it_is_through_checks_and_beside_what_was_mended(small: Small) -> None:
    damaged(small, with_log=True)
    log = bytearray((small.folder / f"{FILE}-wal").read_bytes())
    log[100] ^= 1
    (small.folder / f"{FILE}-wal").write_bytes(log)
    (small.folder / FILE).write_bytes(small.raw)
    left = {name: (small.folder / name).read_bytes() for name in (FILE, f"{FILE}-wal")}
    for _ in range(2):
        with Store.open(small.folder, seed=SEED, limits=LIMITS, inspect=True) as store:
            assert any(finding.what == "write-ahead log" for finding in Check(store).run().findings)
        assert {name: (small.folder / name).read_bytes() for name in left} == left, "to check is not to change"
    kept = repair(small.folder, seed=SEED, limits=LIMITS).kept
    assert kept is not None and kept.read_bytes() == left[FILE]
    assert Path(f"{kept}-wal").read_bytes() == left[f"{FILE}-wal"]
    assert not (small.folder / MENDED).exists()


def test_a_mended_file_that_never_came_to_its_place_does_not_replace_what_is_there(small: Small) -> None:
    small.put(small.raw)
    (small.folder / MENDED).write_bytes(b"of long ago")
    assert unfinished(small.folder) is None
    assert not (small.folder / MENDED).exists() and (small.folder / FILE).read_bytes() == small.raw


def test_while_a_swap_is_not_finished_no_new_store_is_begun(small: Small) -> None:
    small.put(small.raw)
    os.rename(small.folder / FILE, small.folder / MENDED)
    with pytest.raises(DamagedStoreError, match="check --repair"):
        Store.open(small.folder, seed=SEED, limits=LIMITS)
    result = repair(small.folder, seed=SEED, limits=LIMITS)
    assert "carried to its end" in result.done[0]
    assert (small.folder / FILE).read_bytes() == small.raw


def test_two_repairs_at_once_are_one(small: Small) -> None:
    small.put(small.raw)
    held = locks.take(small.folder / "repair.lock")
    assert held is not None
    with held, pytest.raises(BusyError, match="repairs the store"):
        repair(small.folder, seed=SEED, limits=LIMITS)
    assert not repair(small.folder, seed=SEED, limits=LIMITS).done
