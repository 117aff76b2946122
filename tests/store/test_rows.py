"""Rows, logs and listings keep what they are given, under names that tell nothing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.conftest import SEED
from tests.store.small import LIMITS

from hhd.store import rows as rows_module
from hhd.store.check import Check
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import ROWS
from hhd.store.rows import ASKED_AT_ONCE
from hhd.store.store import Store


def test_a_row_is_set_replaced_and_removed(store: Store) -> None:
    with store.transaction():
        assert store.rows.add("t", b"scope", b"key", b"one")
        assert not store.rows.add("t", b"scope", b"key", b"two")
        store.rows.put("t", b"scope", b"key", b"three")
    assert store.rows.get("t", b"scope", b"key") == b"three"
    assert store.rows.get("t", b"scop", b"ekey") is None
    with store.transaction():
        assert store.rows.delete("t", b"scope", b"key") and not store.rows.delete("t", b"scope", b"key")
    assert store.rows.get("t", b"scope", b"key") is None


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100])
def test_a_log_finds_its_own_end(store: Store, count: int) -> None:
    with store.transaction():
        assert [store.rows.append("log", b"s", b"%d" % i) for i in range(count)] == list(range(count))
    fresh = type(store.rows)(store.database, bytes(32), store.random)
    fresh.__dict__.update(store.rows.__dict__, _lengths={})
    assert fresh.length("log", b"s") == store.rows.length("log", b"s") == count
    assert list(store.rows.log("log", b"s", 1)) == [b"%d" % i for i in range(1, count)]
    with store.transaction():
        assert store.rows.remove_log("log", b"s") == count
    assert store.rows.length("log", b"s") == 0


def test_a_log_whose_append_was_rolled_back_goes_on_where_it_was(store: Store) -> None:
    with store.transaction():
        store.rows.append("log", b"s", b"kept")
    with pytest.raises(RuntimeError), store.transaction():
        store.rows.append("log", b"s", b"lost")
        store.rows.append("log", b"s", b"lost")
        raise RuntimeError
    with store.transaction():
        assert store.rows.append("log", b"s", b"next") == 1
    assert list(store.rows.log("log", b"s")) == [b"kept", b"next"]
    assert store.database.tally(ROWS)[0] == store.database.first("SELECT count(*) FROM rows")[0]  # type: ignore[index]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=32, max_size=32), max_size=200))
def test_a_listing_keeps_its_order(store: Store, entries: list[bytes]) -> None:
    with store.transaction():
        store.rows.relist("list", b"s", [])
        for entry in entries:
            store.rows.enlist("list", b"s", entry)
    assert store.rows.listing("list", b"s") == entries
    for start in {0, 1, 25, 26, 27, len(entries) - 1, len(entries), len(entries) + 60} - {-1}:
        assert store.rows.listing_from("list", b"s", start) == entries[start:]
    with store.transaction():
        store.rows.relist("list", b"s", entries[::-1])
    assert store.rows.listing("list", b"s") == entries[::-1]


def test_a_part_of_a_transaction_is_undone_alone_and_what_is_missed_by_is_as_before(store: Store) -> None:
    kept: list[bytes | None] = [b"before", None, None, b"after"]
    with store.transaction():
        store.rows.put("t", b"", b"0", b"before")
        with pytest.raises(ZeroDivisionError), store.part():
            store.rows.put("t", b"", b"0", b"otherwise")
            store.rows.put("t", b"", b"1", b"first")
            with store.part():
                store.rows.append("t", b"log", b"inner")
            store.rows.put("t", b"", b"2", bytes([1 // 0]))
        with store.part():
            store.rows.put("t", b"", b"3", b"after")
        assert not store.database.is_lost
    assert [store.rows.get("t", b"", b"%d" % key) for key in range(4)] == kept
    assert store.rows.length("t", b"log") == 0
    assert store.database.tally(ROWS)[0] == store.database.first("SELECT count(*) FROM rows")[0]  # type: ignore[index]
    assert not Check(store).run().findings


def test_a_transaction_that_sqlite_undid_takes_nothing_more(store: Store) -> None:
    with pytest.raises(AssertionError, match="outside"), store.transaction():
        store.rows.put("t", b"", b"0", b"before")
        with pytest.raises(ZeroDivisionError), store.part():
            store.database._connection.execute("ROLLBACK")  # As SQLite itself may where the disk is full.
            raise ZeroDivisionError
        assert store.database.is_lost
        store.rows.put("t", b"", b"1", b"after")
    assert store.rows.get("t", b"", b"0") is store.rows.get("t", b"", b"1") is None
    with store.transaction():
        store.rows.put("t", b"", b"1", b"later")
    assert store.rows.get("t", b"", b"1") == b"later" and not store.database.is_lost


def test_a_row_that_is_read_again_is_opened_again_only_where_it_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bytes] = []
    rows, unseal = store.rows, rows_module.unseal

    def counted(*given: bytes, **more: bytes) -> bytes:
        opened.append(given[1])
        return unseal(*given, **more)

    monkeypatch.setattr(rows_module, "unseal", counted)
    rows.put("t", b"", b"k", b"one")
    with Store.open(store.folder, seed=SEED, limits=LIMITS) as other:
        for value in (b"two", b"three"):
            other.rows.put("t", b"", b"k", value)
            opened.clear()
            assert [rows.get("t", b"", b"k") for _ in range(3)] == [value] * 3
            assert len(opened) == 1
    with pytest.raises(ZeroDivisionError), store.transaction():
        rows.put("t", b"", b"k", b"never")
        assert rows.get("t", b"", b"k") == b"never"
        raise ZeroDivisionError
    assert rows.get("t", b"", b"k") == b"three"
    with store.transaction():
        for number in range(2 * rows_module.RECENT_ROWS):
            rows.put("t", b"more", b"%d" % number, bytes(number % 5 * rows_module.RECENT_BYTES_MAX // 2))
    assert len(rows._recent) == rows_module.RECENT_ROWS
    assert max(len(value) for _, value in rows._recent.values()) == rows_module.RECENT_BYTES_MAX
    assert rows.get("t", b"more", b"0") == b"" and rows.get("t", b"", b"k") == b"three"
    with store.transaction():
        store.database.write("UPDATE rows SET sealed=? WHERE name=?", bytes(80), rows.name("t", b"", b"k"))
    with pytest.raises(DamagedStoreError):
        rows.get("t", b"", b"k")


def test_within_a_moment_a_row_is_looked_up_once_and_is_what_it_is(store: Store) -> None:
    rows, database = store.rows, store.database
    asked: list[str] = []
    first = database.first

    def counted(statement: str, *values: object) -> tuple[object, ...] | None:
        asked.append(statement)
        return first(statement, *values)

    database.first = counted  # type: ignore[method-assign]

    def read(key: bytes) -> tuple[bytes | None, int]:
        asked.clear()
        found = [rows.get("t", b"", key) for _ in range(3)]
        assert found == [found[0]] * 3
        return found[0], len(asked)

    rows.put("t", b"", b"k", b"one")
    assert read(b"k") == (b"one", 3)  # Others may write in between.
    with Store.open(store.folder, seed=SEED, limits=LIMITS) as other:
        with store.snapshot():
            assert (read(b"k"), read(b"none")) == ((b"one", 0), (None, 1))
            other.rows.put("t", b"", b"k", b"two")
            assert (read(b"k"), read(b"none")) == ((b"one", 0), (None, 0))
        with store.snapshot():
            assert (read(b"k"), read(b"none")) == ((b"two", 1), (None, 1))
        with store.transaction():
            assert (read(b"k"), read(b"none")) == ((b"two", 0), (None, 0))
            rows.put("t", b"", b"k", b"three")
            assert rows.add("t", b"", b"none", b"some") and not rows.add("t", b"", b"none", b"more")
            assert (read(b"k"), read(b"none")[0]) == ((b"three", 0), b"some")
            with pytest.raises(ZeroDivisionError), store.part():
                rows.put("t", b"", b"k", b"never")
                rows.delete("t", b"", b"none")
                assert (read(b"k")[0], read(b"none")[0]) == (b"never", None)
                raise ZeroDivisionError
            assert (read(b"k")[0], read(b"none")[0]) == (b"three", b"some")
            assert rows.delete("t", b"", b"none") and read(b"none")[0] is None
        with pytest.raises(ZeroDivisionError), store.transaction():
            rows.put("t", b"", b"k", b"never")
            raise ZeroDivisionError
        with store.transaction():
            assert (read(b"k"), read(b"none")) == ((b"three", 1), (None, 1))
            database.write("DELETE FROM rows WHERE name=?", rows.name("t", b"", b"k"))  # Past the rows, as damage is.
            assert read(b"k") == (None, 1)
        other.rows.put("t", b"", b"k", b"back")
    assert read(b"k") == (b"back", 3)


def test_what_is_remembered_of_rows_is_bounded_and_is_not_asked_by_a_check(store: Store) -> None:
    rows = store.rows
    with store.transaction():
        for number in range(2 * rows_module.RECENT_ROWS):
            rows.put("t", b"", b"%d" % number, bytes(number % 3 * rows_module.RECENT_BYTES_MAX))
            assert len(rows._here) <= rows_module.RECENT_ROWS
    with store.snapshot():
        assert rows.get("t", b"", b"0") == b"" and rows._here
        assert max(len(value or b"") for value in rows._here.values()) <= rows_module.RECENT_BYTES_MAX
        with rows.remembering():
            assert rows._now() == {}


def test_lengths_are_padded_and_rows_do_not_swap(store: Store) -> None:
    with store.transaction():
        store.rows.put("t", b"", b"a", b"x")
        store.rows.put("t", b"", b"b", b"y" * 50)
    names = [store.rows.name("t", b"", key) for key in (b"a", b"b")]
    sealed = [store.database.first("SELECT sealed FROM rows WHERE name=?", name)[0] for name in names]  # type: ignore[index]
    assert len(sealed[0]) == len(sealed[1])  # type: ignore[arg-type]
    with store.transaction():
        store.database.write("UPDATE rows SET sealed=? WHERE name=?", sealed[1], names[0])
    with pytest.raises(DamagedStoreError):
        store.rows.get("t", b"", b"a")


def test_many_rows_are_what_each_of_them_is(store: Store) -> None:
    keys = [b"%d" % number for number in range(2 * ASKED_AT_ONCE + 3)]
    with store.transaction():
        for key in keys[::2]:
            store.rows.put("t", b"s", key, b"value of " + key)
    assert list(store.rows.each_of("t", b"s", keys)) == [store.rows.get("t", b"s", key) for key in keys]
    assert list(store.rows.each_of("t", b"s", [keys[2], keys[1], keys[2]])) == [b"value of 2", None, b"value of 2"]
    assert list(store.rows.each_of("t", b"s", [])) == []


def test_a_damaged_row_among_many_is_named(store: Store) -> None:
    keys = [b"%d" % number for number in range(5)]
    with store.transaction():
        for key in keys:
            store.rows.put("t", b"s", key, key)
        name = store.rows.name("t", b"s", b"3")
        sealed = store.database.blob("SELECT sealed FROM rows WHERE name=?", name) or b""
        store.database.write("UPDATE rows SET sealed=? WHERE name=?", sealed[:-1] + bytes([sealed[-1] ^ 1]), name)
    read = store.rows.each_of("t", b"s", keys)
    assert [next(read) for _ in range(3)] == keys[:3]
    with pytest.raises(DamagedStoreError, match=name.hex()):
        next(read)
    with store.transaction():
        store.database.write("UPDATE rows SET sealed='text' WHERE name=?", name)
    with pytest.raises(DamagedStoreError, match=name.hex()):
        list(store.rows.each_of("t", b"s", keys))
    with store.transaction():
        store.rows.put("t", b"s", b"3", b"3")
