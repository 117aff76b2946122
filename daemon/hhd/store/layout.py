"""How the store's file is laid out: its tables, its format, how an older one becomes it, how each connection is set.

What makes a commit a promise is set here: WAL with `synchronous=FULL` makes one fdatasync of each, after which a power
cut leaves it whole (`fullfsync` on macOS, where fsync alone stops at the drive's cache).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hhd.base import files
from hhd.store import locks
from hhd.store.errors import DamagedStoreError, NewerStoreError
from hhd.store.sqlite_errors import translated

FORMAT = 1
"""Number of the layout below; `format` beside the file repeats it for who cannot open the file."""

FILE = "store.db"
MENDED = f"{FILE}.mended"
"""What a repair made, on its way to be that file (`swap.py`)."""

SYNCHRONOUS = "FULL"
BUSY_SECONDS = 15.0
"""A commit takes milliseconds; only an import of a large log or `hhd gc` holds the lock for seconds."""

TALLY_BYTES = 16
"""Of the XOR of a table's names."""
_SCHEMA = (
    "CREATE TABLE spare(name BLOB PRIMARY KEY, sealed BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tally(t INTEGER PRIMARY KEY, n INTEGER NOT NULL, x BLOB NOT NULL)",
    "CREATE TABLE rows(name BLOB PRIMARY KEY, sealed BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE objects(n INTEGER PRIMARY KEY, sealed BLOB NOT NULL)",
)
ROWS, OBJECTS, SPARE = 1, 2, 3
TABLES = {ROWS: "rows", OBJECTS: "objects", SPARE: "spare"}
"""`spare` has a second copy of those rows that everything rests on: keys. It lies in other pages of the file."""

Migration = Callable[[sqlite3.Connection], None]
MIGRATIONS: dict[int, Migration] = {}
"""From format N to N+1; run in one transaction, after a copy of the file was made."""


def write(connection: sqlite3.Connection) -> None:
    """Lay out an empty file, within the transaction in hand."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.executemany("INSERT INTO tally VALUES(?,0,?)", [(t, bytes(TALLY_BYTES)) for t in TABLES])


def insist(folder: Path, connection: sqlite3.Connection) -> None:
    """See that the file is laid out so; an older one is brought to it. Raises DamagedStoreError, NewerStoreError."""
    with translated(folder):
        number = connection.execute("PRAGMA user_version").fetchone()[0]
    if number > FORMAT:
        raise newer(folder, number)
    if number < FORMAT:
        one_at_a_time = locks.take(folder / "begin.lock", wait=True)
        assert one_at_a_time is not None
        with one_at_a_time, translated(folder):
            _migrate(folder, connection)
    with translated(folder):
        _insist_on_schema(connection)


def newer(folder: Path, number: int) -> NewerStoreError:
    """Return the error for a store of a format this program does not know."""
    return NewerStoreError(
        f"The store in {folder} has format {number}, newer than the {FORMAT} that this hhd knows; nothing was changed. "
        "Upgrade hhd."
    )


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file as every process of hhd does; raises what SQLite raises."""
    where = f"{path.absolute().as_uri()}?mode=ro" if read_only else path
    connection = sqlite3.connect(
        where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=read_only
    )
    try:
        _set_up(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    for pragma in (
        "journal_mode=WAL",
        f"synchronous={SYNCHRONOUS}",
        "fullfsync=1",
        "checkpoint_fullfsync=1",
        "cell_size_check=1",
        "trusted_schema=0",
        "temp_store=MEMORY",
        "secure_delete=1",
        "journal_size_limit=67108864",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _insist_on_schema(connection: sqlite3.Connection) -> None:
    """Raise if the text of a table is not ours: SQLite believes it, and would read columns as others than they are."""
    query = "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || sql FROM sqlite_master"
    found = {row[0] for row in connection.execute(query)}
    for statement in _SCHEMA:
        name = statement.removeprefix("CREATE TABLE ").partition("(")[0]
        if f"table {name} {name} {statement}" not in found:
            raise sqlite3.DatabaseError(f"the description of table {name} is not as it was written")


def _migrate(folder: Path, connection: sqlite3.Connection) -> None:
    """Bring an older file to this format after a copy of it was made durable beside it."""
    number = connection.execute("PRAGMA user_version").fetchone()[0]
    if number < 1 or any(n not in MIGRATIONS for n in range(number, FORMAT)):
        raise DamagedStoreError(f"The store in {folder} has format {number}, which no hhd has written.")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    copy = folder / f"{FILE}.format-{number}"
    temp = folder / f".{copy.name}.tmp"
    import shutil  # Only here, and it takes longer to import than a store to open.

    shutil.copyfile(folder / FILE, temp)
    fd = os.open(temp, os.O_RDONLY)
    try:
        files.sync_file(fd)
    finally:
        os.close(fd)
    os.chmod(temp, 0o600)
    os.rename(temp, copy)
    files.sync_folder(folder)
    connection.execute("BEGIN IMMEDIATE")
    for n in range(number, FORMAT):
        MIGRATIONS[n](connection)
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.execute("COMMIT")
