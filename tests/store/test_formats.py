"""Stores of every released format open; newer ones are refused in one sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, BOB, SEED, flat

from hhd.store import layout
from hhd.store.check import Check
from hhd.store.errors import DamagedStoreError, NewerStoreError
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId

STORES = Path(__file__).parents[1] / "fixtures" / "stores"
LIMITS = Limits(free_bytes_min=0)


def _copy(tmp_path: Path, number: int = 1) -> Path:
    shutil.copytree(STORES / f"format-{number}", tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("number", range(1, layout.FORMAT + 1))
def test_a_store_of_each_format_reads_as_it_was_written(tmp_path: Path, number: int) -> None:
    expected = json.loads((STORES / f"format-{number}" / "expected.json").read_text())
    with Store.open(_copy(tmp_path, number), seed=SEED, limits=LIMITS) as store:
        assert store.sessions() == [ALICE, BOB]
        assert not Check(store, read_data=True).run().findings
        assert [one.hex() for one in store.checkpoint_ids(ALICE)] == list(expected)
        for name, told in expected.items():
            checkpoint = store.checkpoint(CheckpointId(bytes.fromhex(name)))
            assert checkpoint.thinned == (name == list(expected)[1])
            if checkpoint.thinned:
                continue
            pages = flat(Line(store, ALICE, checkpoint.id).snapshot())
            assert {str(n): hashlib.sha256(page).hexdigest() for n, page in pages.items()} == told["pages"]
            reader = store.reader_of(checkpoint)
            assert b"".join(reader.log(checkpoint.payload.logs["claude"])).decode() == told["log"]
        assert store.modules.get(store.modules.all()[0]) == b"\0asm module of the fixture"
        assert list(store.rows.log("journal", ALICE)) == [b"an entry"]


def test_an_older_store_is_migrated_after_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _copy(tmp_path)
    before = (folder / layout.FILE).read_bytes()
    monkeypatch.setattr(layout, "FORMAT", 2)
    monkeypatch.setattr("hhd.store.note.FORMAT", 2)
    monkeypatch.setitem(layout.MIGRATIONS, 1, lambda connection: connection.execute("CREATE TABLE fresh(x)"))
    with Store.open(folder, seed=SEED, limits=LIMITS) as store:
        assert store.database.first("SELECT count(*) FROM fresh") == (0,)
        assert store.sessions() == [ALICE, BOB]
    assert (folder / "format").read_text().startswith("hhd-store 2 ")
    copy = sqlite3.connect(folder / f"{layout.FILE}.format-1")
    assert copy.execute("SELECT count(*) FROM sqlite_master WHERE name='fresh'").fetchone() == (0,)
    copy.close()
    monkeypatch.undo()
    with pytest.raises(NewerStoreError, match="format 2, newer than the 1"):
        Store.open(folder, seed=SEED, limits=LIMITS)
    assert len(before) > 0


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _copy(tmp_path)
    monkeypatch.setattr(layout, "FORMAT", 2)
    monkeypatch.setattr("hhd.store.note.FORMAT", 2)

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE fresh(x)")
        raise sqlite3.OperationalError("cannot")

    monkeypatch.setitem(layout.MIGRATIONS, 1, broken)
    with pytest.raises(DamagedStoreError):
        Store.open(folder, seed=SEED, limits=LIMITS)
    monkeypatch.undo()
    with Store.open(folder, seed=SEED, limits=LIMITS) as store:
        assert store.sessions() == [ALICE, BOB]


@pytest.mark.parametrize("where", ["note", "file"])
def test_a_newer_store_is_refused_and_not_touched(tmp_path: Path, where: str) -> None:
    folder = _copy(tmp_path)
    if where == "note":
        (folder / "format").write_text("hhd-store 99 somebody\n")
    else:
        connection = sqlite3.connect(folder / layout.FILE)
        connection.execute("PRAGMA user_version=99")
        connection.close()
    with pytest.raises(NewerStoreError, match=r"format 99, newer .* Upgrade hhd"):
        Store.open(folder, seed=SEED, limits=LIMITS)


def test_a_folder_of_another_user_or_a_link_is_refused(tmp_path: Path) -> None:
    from hhd.base.errors import RefusedError

    folder = _copy(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(RefusedError):
        Store.open(link, seed=SEED, limits=LIMITS)
    folder.chmod(0o755)
    Store.open(folder, seed=SEED, limits=LIMITS).close()
    assert folder.stat().st_mode & 0o77 == 0
