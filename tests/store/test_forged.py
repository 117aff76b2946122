"""Whatever kind of value stands in a column of the file, everything that reads it says so or reads as before.

A flipped byte may turn any stored value into one of another type, sign or size. Here each column gets each odd value
by way of SQL, so that the file itself is healthy and nothing but our own reading stands between the value and us.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.store.conftest import ALICE, SEED, Memory
from tests.store.small import LIMITS, Small, everything, examine, harmless, mend, small_store

from hhd.base.errors import UserError
from hhd.store.errors import DamagedStoreError
from hhd.store.families import FAMILY
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.modules import MODULE, MODULES
from hhd.store.repair import repair
from hhd.store.retention import session_bytes, sweep
from hhd.store.rows import LEDGER
from hhd.store.store import CHECKPOINT, CHECKPOINTS, DIRECTORY, META, SESSION, Store
from hhd_protocol.codec import encode

COLUMNS = {
    "rows": ("name", "sealed"),
    "spare": ("name", "sealed"),
    "tally": ("t", "n", "x"),
    "objects": ("n", "sealed"),
}

ODD: dict[str, str] = {
    "null": "NULL",
    "minus one": "-1",
    "zero": "0",
    "smallest": "-9223372036854775807 - 1",
    "largest": "9223372036854775807",
    "float": "1.5",
    "huge float": "1e300",
    "infinity": "9e999",
    "text": "'abc'",
    "number as text": "'12'",
    "text that is no UTF-8": "CAST(x'ff80fe' AS TEXT)",
    "text with an end in it": "CAST(x'610062' AS TEXT)",
    "empty text": "''",
    "empty bytes": "x''",
    "one byte": "x'01'",
    "a nonce and no more": "zeroblob(24)",
    "zeros": "zeroblob(64)",
    "huge bytes": "zeroblob(3000000)",
    "huge text": "replace(hex(zeroblob(100000)), '0', 'z')",
    "the same as text": "CAST({column} AS TEXT)",
    "one byte more": "CAST({column} || x'00' AS BLOB)",
    "one byte less": "CAST(substr({column}, 2) AS BLOB)",
}
"""What is put into a column, as SQL."""

_CASES = [(table, column, odd) for table, columns in COLUMNS.items() for column in columns for odd in ODD]


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    with small_store(seed=0) as made:
        yield made


def forged(small: Small, table: str, column: str, value: str) -> Iterator[bytes]:
    """Yield files whose first, then whose last row of `table` has `value` in `column`, where SQLite can hold it."""
    for order in ("ASC", "DESC"):
        path = small.put(small.raw) / FILE
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            (before,) = connection.execute("SELECT group_concat(sql, ';') FROM sqlite_master").fetchone()
            connection.execute("PRAGMA writable_schema=ON")  # Else NULL is refused.
            connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            key = COLUMNS[table][0]
            which = f"(SELECT {key} FROM {table} ORDER BY {key} {order} LIMIT 1)"
            try:
                value_sql = value.format(column=column)
                connection.execute(f"UPDATE {table} SET {column} = {value_sql} WHERE {key} = {which}")
            except sqlite3.IntegrityError:
                continue  # A row number is an integer whatever happens, and a name is never NULL.
            connection.execute("PRAGMA writable_schema=ON")
            for statement in before.split(";"):
                name = statement.removeprefix("CREATE TABLE ").partition("(")[0]
                connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (statement, name))
        yield path.read_bytes()


def _gc(store: Store) -> object:
    return sweep(store, keep_days=0)


def _du(store: Store) -> object:
    return [session_bytes(store, session) for session in store.sessions()]


def _advance(store: Store) -> object:
    memory, heads = Memory(1, 1), store.heads(ALICE)
    line = Line(store, ALICE, heads[-1] if heads else None)
    return line.checkpoint(snapshot=memory.snapshot(), logs={"claude": b"more"})


def _journal(store: Store) -> object:
    return store.rows.append("journal", ALICE, b"more"), store.rows.remove_log("journal", ALICE)


TWICE = (FAMILY, "commons", LEDGER)
USES: tuple[Callable[[Store], object], ...] = (everything, _du, _advance, _journal, _gc)


@pytest.mark.parametrize(("table", "column", "odd"), _CASES, ids=lambda one: str(one).replace(" ", "-"))
def test_an_odd_value_ends_in_a_finding_or_one_sentence(small: Small, table: str, column: str, odd: str) -> None:
    for raw in forged(small, table, column, ODD[odd]):
        changed = raw != small.raw
        told = examine(small, raw)
        for use in USES:
            small.put(raw)
            with contextlib.suppress(UserError), Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
                use(store)
        whole = mend(small, raw)
        assert whole, "one value was odd, and no session is whole"
        if harmless(told):
            assert whole == small.content.keys()
        assert changed


def test_the_forger_leaves_a_healthy_file_where_the_value_is_the_same(small: Small) -> None:
    """So that what the tests above find is the value's doing."""
    for table, columns in COLUMNS.items():
        for column in columns:
            for raw in forged(small, table, column, column):
                assert harmless(examine(small, raw))


NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "no CBOR": b"\xff\xfe",
    "none": encode(None),
    "a number": encode(7),
    "an empty list": encode([]),
    "an empty map": encode({}),
    "a list of empty lists": encode([1, bytes(32), bytes(32), [[], [b"x"]], bytes(16)]),
    "keys of no length": encode([1, b"", b"", [[b"", b""]], b""]),
    "a ledger of negative length": encode({"journal": -1}),
    "a ledger without end": encode({"journal": 2**62, "checkpoints": 2**200}),
    "a ledger of texts": encode({"journal": "7"}),
    "a reference to nothing": encode([b"", b""]),
    "entries of no length": bytes(33),
    "a checkpoint of nothing": encode([1, b"", [], [None, {}, None], b"", 0, None, 0, False, b"", False]),
    "a checkpoint of odd things": encode(
        [1, b"s", [b"p"], [[b"n", b"e"], {"l": [b"", b""]}, 7], b"abc", -1, 3, 2**99, 9, b"", 0]
    ),
}
"""What a row that opens under the right key holds."""


@pytest.mark.parametrize(
    "kind", ["directory", "session", "checkpoint", "checkpoints", "family", "commons", "ledger", "module", "modules"]
)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda one: one.replace(" ", "-"))
def test_a_row_that_opens_and_holds_nonsense_ends_in_a_finding_or_one_sentence(
    small: Small, kind: str, nonsense: str
) -> None:
    value = NONSENSE[nonsense]
    with Store.open(small.put(small.raw), seed=SEED, limits=LIMITS) as store:
        digest = store.modules.put(b"a module")
        first = bytes(8)
        for one in (
            store.sessions() if kind in ("session", "checkpoint", "checkpoints", "family", "ledger") else [ALICE]
        ):
            keys = {
                DIRECTORY: (DIRECTORY, b"", first),
                SESSION: (SESSION, b"", one),
                CHECKPOINT: (CHECKPOINT, b"", store.heads(one)[-1]),
                CHECKPOINTS: (CHECKPOINTS, one, first),
                FAMILY: (FAMILY, b"", store.session(one).family),
                "commons": (META, b"", b"commons"),
                LEDGER: (LEDGER, one, b""),
                MODULE: (MODULE, b"", digest),
                MODULES: (MODULES, b"", first),
            }
            (store.rows.put_twice if kind in TWICE else store.rows.put)(*keys[kind], value)
        store.database.fold()
    raw = (small.folder / FILE).read_bytes()
    examine(small, raw, same=False)
    for use in (*USES, _modules):
        small.put(raw)
        with contextlib.suppress(UserError), Store.open(small.folder, seed=SEED, limits=LIMITS) as store:
            use(store)
    small.put(raw)
    with contextlib.suppress(UserError):
        repair(small.folder, seed=SEED, limits=LIMITS)


def _modules(store: Store) -> object:
    return [store.modules.get(digest) for digest in store.modules.all()]


@pytest.mark.parametrize("version", [-(2**31), -1, 0])
def test_a_format_number_that_none_has_is_refused_at_once(small: Small, version: int) -> None:
    path = small.put(small.raw) / FILE
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    with pytest.raises(DamagedStoreError, match="which no hhd has written"):
        Store.open(small.folder, seed=SEED, limits=LIMITS)


@pytest.mark.parametrize("page_bytes", [0, 1, 2, 6, 511, 513, 2**17, 2**32 - 1])
def test_a_log_with_pages_of_no_size_is_damage(tmp_path: Path, page_bytes: int) -> None:
    import struct

    from hhd.store import wal

    head = struct.pack(">6I", 0x377F0683, 3007000, page_bytes, 0, 1, 2)
    sums = wal._checksum(">", head, (0, 0))
    (tmp_path / "log").write_bytes(head + struct.pack(">2I", *sums) + bytes(9000))
    assert wal.read_log(tmp_path / "log").hidden == 1
