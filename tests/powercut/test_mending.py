"""After a power cut at any moment of a repair or a migration everything is there, and each sync of theirs is needed."""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.powercut import images, recorder
from tests.powercut.recorder import Record
from tests.powercut.test_store import ROOT, disks
from tests.store.conftest import ALICE, SEED
from tests.store.small import LIMITS

from hhd.base.errors import UserError
from hhd.store import layout
from hhd.store.check import Check
from hhd.store.layout import FILE
from hhd.store.repair import repair
from hhd.store.store import Store

__all__ = ["disks"]

MADE = """
import os, shutil, sys
from pathlib import Path
from hhd.base import files
from hhd.store import layout
from hhd.store.line import Line
from hhd.store.repair import repair
from hhd.store.store import Store
from tests.powercut.recorder import mark
from tests.store.conftest import ALICE, SEED, Memory
from tests.store.small import LIMITS, dice

folder = Path(sys.argv[1]) / "store"
names = layout.FILE, layout.FILE + "-wal"
with Store.open(folder, seed=SEED, limits=LIMITS, random=dice(1)) as store:
    store.create_session(ALICE)
    Line(store, ALICE).checkpoint(snapshot=Memory(3).snapshot())
    store.database.fold()
    store.rows.append("journal", ALICE, b"only in the log")
    first = (folder / names[1]).stat().st_size
    for _ in range(2):
        store.rows.append("journal", ALICE, b"more")
    left = [(folder / name).read_bytes() for name in names]
"""

_REPAIR = """
files.replace(folder / names[0], left[:1])
files.replace(folder / names[1], left[1:])
mark("begun")
assert not repair(folder, seed=SEED, limits=LIMITS, random=dice(2)).report.findings
mark("done")
"""
REPAIR = MADE + "left[0] = bytes(100) + left[0][100:]" + _REPAIR
REPAIR_OF_LOG = (
    MADE + "left[1] = left[1][: first + 99] + bytes((left[1][first + 99] ^ 1,)) + left[1][first + 100 :]" + _REPAIR
)

MIGRATE = (
    MADE
    + """
shutil._USE_CP_SENDFILE = False  # The recorder does not see what the kernel copies.
mark("begun")
layout.FORMAT = 2
from hhd.store import note
note.FORMAT = 2
layout.MIGRATIONS[1] = lambda connection: connection.execute("CREATE TABLE fresh(x)")
Store.open(folder, seed=SEED, limits=LIMITS).close()
mark("done")
"""
)


def recorded(work: str, tmp_path: Path) -> list[Record]:
    root = tmp_path / "root"
    root.mkdir()
    records = recorder.record([sys.executable, "-c", work, str(root)], root, tmp_path / "log", PYTHONPATH=str(ROOT))
    assert [one.path for one in records if one.op == "m"] == ["begun", "done"]
    return records


Problem = Callable[[Path, bool], str | None]
"""What is wrong with the store in a folder; `bool`: it was said that all is done."""


def broken(
    records: Sequence[Record],
    problem: Problem,
    at: Path,
    *,
    per_moment: int,
    since: int = 0,
    one_is_enough: bool = False,
) -> tuple[list[str], int]:
    """How the disks that a cut could leave from record `since` on are not as promised, and how many there are."""
    begun = next(place for place, one in enumerate(records) if one.op == "m")
    found, count = [], 0
    for image in images.images(records, random.Random(3), per_moment=per_moment):
        if image.moment < max(begun, since):
            continue
        count += 1
        for path, raw in image.files.items():
            if not path.endswith("-shm"):
                target = at / path.lstrip("/")
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                target.write_bytes(raw)
        try:
            said = problem(next(at.rglob("format")).parent, "done" in image.marks)
        except (UserError, StopIteration) as error:
            said = str(error) or "nothing is left"
        shutil.rmtree(at)
        if said:
            found.append(said)
            if one_is_enough:
                break
    return found, count


def _content(folder: Path) -> str | None:
    with Store.open(folder, seed=SEED, limits=LIMITS) as store:
        if findings := Check(store, read_data=True).run().findings:
            return f"not clean: {findings[0]}"
        if len(store.checkpoint_ids(ALICE)) != 1 or list(store.rows.log("journal", ALICE))[:1] != [b"only in the log"]:
            return "something was lost"
    return None


def of_repair(folder: Path, done: bool) -> str | None:
    if not done and repair(folder, seed=SEED, limits=LIMITS).report.findings:
        return "not mended by the next repair"
    return _content(folder)


def of_migration(folder: Path, done: bool) -> str | None:
    connection = sqlite3.connect(folder / FILE)
    number = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    if done and (number, (folder / "format").read_bytes()[:11]) != (2, b"hhd-store 2"):
        return "not migrated"
    if number == 2:
        (folder / "copy").mkdir(mode=0o700)
        shutil.copy(folder / "format", folder / "copy" / "format")
        kept = (folder / f"{FILE}.format-1").read_bytes() if (folder / f"{FILE}.format-1").exists() else b""
        (folder / "copy" / FILE).write_bytes(kept)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "MIGRATIONS", {1: lambda connection: None})
            if said := _content(folder / "copy"):
                return f"the copy: {said}"
    return _content(folder)


@pytest.fixture
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """hhd as it may be one day."""
    monkeypatch.setattr(layout, "FORMAT", 2)
    monkeypatch.setattr("hhd.store.note.FORMAT", 2)
    fresh: Callable[[sqlite3.Connection], object] = lambda connection: connection.execute("CREATE TABLE fresh(x)")  # noqa: E731
    monkeypatch.setitem(layout.MIGRATIONS, 1, fresh)


def own_syncs(records: Sequence[Record]) -> list[int]:
    """The places of the syncs of our own code, from the beginning of the work on.

    Those of a folder that SQLite syncs again before it writes on are left out: nobody would miss them.
    """
    begun = next(place for place, one in enumerate(records) if one.op == "m")
    of_sqlite = (FILE, "-wal", "-shm", "-journal")
    return [
        place
        for place, one in enumerate(records)
        if place > begun
        and one.op == "s"
        and not one.path.endswith(of_sqlite)
        and not (records[place - 1].op == "s" and records[place - 1].path.endswith(("-wal", "-journal")))
    ]


@pytest.mark.parametrize("work", [REPAIR, REPAIR_OF_LOG], ids=["of the file", "of the log"])
def test_a_cut_repair_is_carried_to_its_end_by_the_next(tmp_path: Path, disks: Path, work: str) -> None:
    found, count = broken(recorded(work, tmp_path), of_repair, disks / "disk", per_moment=1)
    assert count > 100 and not found, found[:3]


@pytest.mark.usefixtures("_later")
def test_a_cut_migration_keeps_the_copy_and_the_store(tmp_path: Path, disks: Path) -> None:
    found, count = broken(recorded(MIGRATE, tmp_path), of_migration, disks / "disk", per_moment=2)
    assert count > 30 and not found, found[:3]


def missed(records: Sequence[Record], at: int, problem: Problem, disks: Path, near: int) -> bool:
    """Say whether a cut within `near` records after sync `at` breaks a promise if the sync is dropped."""
    left = images.without(records[: at + near], at)
    return bool(broken(left, problem, disks / "disk", per_moment=240 // near, since=at, one_is_enough=True)[0])


@pytest.mark.long
@pytest.mark.parametrize("work", [REPAIR, REPAIR_OF_LOG], ids=["of the file", "of the log"])
def test_the_syncs_of_a_repair_are_needed(tmp_path: Path, disks: Path, work: str) -> None:
    """Those of the note are not: the next repair writes it. The last one is repeated by SQLite before it writes on."""
    records = recorded(work, tmp_path)
    at = own_syncs(records)[-3]
    why = "before the damaged file goes the mended one has to be there, and before its log goes the file has to be away"
    assert missed(records, at, of_repair, disks, 2), why


@pytest.mark.long
@pytest.mark.usefixtures("_later")
def test_the_syncs_of_a_migration_are_needed(tmp_path: Path, disks: Path) -> None:
    """But for that of the folder with the copy, which SQLite repeats before it writes on."""
    records = recorded(MIGRATE, tmp_path)
    copy, _, note, folder = own_syncs(records)
    for at in (copy, note, folder):
        assert missed(records, at, of_migration, disks, 20), Path(records[at].path).name
