"""The one SQLite file, open: what is read and written in it, when that is durable, its log, and its tally.

Each commit is a promise (`layout.py` says what makes it one); readers of other processes go on beside a writer.
`tally` keeps, for each table, how many rows it has and the XOR of their names: a row that damage made unreachable is
missed, which no check of the rows that are left could notice.

A connection must not cross a fork: SQLite would let the child's exit drop the parent's locks.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from hhd.base.errors import UserError
from hhd.store import layout
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import BUSY_SECONDS, FILE, MENDED, TABLES, TALLY_BYTES
from hhd.store.sqlite_errors import translated

AUTOFOLD_PAGES = 1000
"""SQLite's own default: the commit that makes the log longer than 4 MB folds it."""

LOG_BYTES = 4608 * 1024
"""What the log of so many pages takes, and that commit with it."""
LOG_ROOM_BYTES = 16 * LOG_BYTES
"""Free on the disk, for the log to take its length in advance."""

_TALLY_MAX = 1 << 48
"""More rows than any disk has room for: a larger number is damage, and adding to it might not fit SQLite's integers."""


class Database:
    """A connection with explicit, re-entrant transactions. Used by one thread at a time."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.undone: Callable[[], None] = lambda: None
        """Called when a transaction was undone: what was read within it may never have been."""
        self.folder, self._connection, self._depth, self._pid = folder, connection, 0, os.getpid()
        self._changes: dict[int, list[int]] = {}
        self.moment = 0
        """While the file `is_still`: another number than before where what was read before may not be what is there."""
        self.is_still = False
        """Whether nobody else can change what is read now: within a transaction, and within a snapshot."""
        self._version: object = None
        self.gate: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        """Entered for as long as a transaction lasts. Where many processes write, SQLite lets whoever happens to ask at
        the right moment go first, and some never; what stands here lets them in one after the other."""
        self._inside = contextlib.ExitStack()

    @classmethod
    def create(cls, folder: Path) -> Database:
        """Make a new, empty store file; an unfinished one of an earlier attempt is replaced."""
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal"):
            (folder / name).unlink(missing_ok=True)
        with translated(folder):
            connection = layout.connect(folder / FILE)
            connection.execute("BEGIN IMMEDIATE")
            layout.write(connection)
            connection.execute("COMMIT")
        os.chmod(folder / FILE, 0o600)
        return cls(folder, connection)  # SQLite synced the folder with its first journal.

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False) -> Database:
        """Open the store file; raises DamagedStoreError if there is none or it is not one, NewerStoreError.

        `read_only`: neither the file nor its log is written, also not when it is closed.
        """
        path = folder / FILE
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = 0
        if not size:
            if (folder / MENDED).exists():
                raise DamagedStoreError(
                    f"A repair of the store in {folder} was cut off; nothing is lost. Run `hhd check --repair`, which "
                    "carries it to its end."
                )
            raise DamagedStoreError(
                f"The store in {folder} has lost its file {FILE}; nothing was changed. Restore it from a "
                "backup, or move the folder away to begin anew."
            )
        with translated(folder):
            connection = layout.connect(path, read_only=read_only)
        try:
            layout.insist(folder, connection)
        except BaseException:
            connection.close()
            raise
        return cls(folder, connection)

    @staticmethod
    def holds_something(folder: Path) -> bool:
        """Say whether the file was finished: its layout is written in one transaction."""
        with translated(folder):
            connection = sqlite3.connect(folder / FILE)
            try:
                return bool(connection.execute("SELECT 1 FROM sqlite_master").fetchone())
            finally:
                connection.close()

    def close(self) -> None:
        """Close the file; the last one to close it folds the write-ahead log into it."""
        if self._pid == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All writes within become durable together at the end of the outermost one, or none does.

        Raises FullStoreError when there is no room, BusyError when another process writes for too long.
        """
        return _Transaction(self)

    def enter(self) -> None:
        """Begin a transaction, or another part of the one in hand."""
        self._insist_on_own_process()
        if not self._depth:
            self._inside.enter_context(self.gate())
            try:
                with translated(self.folder):
                    self._connection.execute("BEGIN IMMEDIATE")
            except BaseException:
                self._inside.close()
                raise
            self._look()
            self._changes = {}
        self._depth += 1

    def _look(self) -> None:
        """From here on the file stays as it is, but for what is written here; see whether others wrote since."""
        with contextlib.suppress(sqlite3.Error):  # Then nothing is still, and whoever reads meets what is wrong.
            version = self._connection.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self.moment, self._version = self.moment + 1, version
            self.is_still = True

    def changed(self) -> None:
        """What was read may not be what is there: something was undone, or written past who keeps what it read."""
        self.moment += 1

    def leave(self, *, failed: bool) -> None:
        """End a part of a transaction; the outermost end makes all of it durable, or undoes it."""
        self._depth -= 1
        if self._depth:
            return
        self._depth = 1  # What is written here belongs to it, too.
        try:
            if not failed:
                with translated(self.folder):
                    self._write_tally()
                    self._connection.execute("COMMIT")
        except BaseException:
            failed = True
            raise
        finally:
            self._depth, self.is_still = 0, False
            if failed:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                self.changed()
                self.undone()
            self._inside.close()

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """A part of a transaction that is undone alone where it fails: the rest may still become durable.

        Unless SQLite undid all of it (`is_lost`).
        """
        assert self._depth, "a part of no transaction"
        before = {table: list(change) for table, change in self._changes.items()}
        with translated(self.folder):
            self._connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                with translated(self.folder):
                    self._connection.execute("ROLLBACK TO part")
                    self._connection.execute("RELEASE part")
            self._changes = before
            self.changed()
            self.undone()
            raise
        with translated(self.folder):
            self._connection.execute("RELEASE part")

    @property
    def is_lost(self) -> bool:
        """Whether SQLite undid the transaction in hand, as it may where the disk is full: nothing is to be written."""
        return bool(self._depth) and not self._connection.in_transaction

    @contextlib.contextmanager
    def unfolded(self) -> Iterator[None]:
        """A transaction within leaves the log as it is, however long: whoever commits next folds it, or `fold_some`.

        What was committed is as durable in the log as in the file; moving megabytes writes them again, and who waits to
        hear that they are durable need not wait for that.
        """
        with translated(self.folder):
            self._connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        try:
            yield
        finally:
            with translated(self.folder):
                self._connection.execute(f"PRAGMA wal_autocheckpoint={AUTOFOLD_PAGES}").fetchall()

    def lengthen_log(self) -> None:
        """Give the write-ahead log the length that it comes to before it is folded: zeros, behind all that is in it.

        A commit that makes a file longer waits for the journal of the file system, too, several times as long as one
        that writes over what is there; and the log begins anew whenever nobody has the store open. SQLite reads a log
        up to the first frame that is not of its time. Where there is little room it stays as it is: of a disk that is
        nearly full it takes nothing in advance, so what does not fit any more is said where it is. So it does where
        somebody else writes now: nobody waits for this.
        """
        import shutil  # Only here, and it takes longer to import than a store to open.

        path = self.folder / f"{FILE}-wal"
        with contextlib.suppress(OSError, UserError), self._not_waiting():
            if path.stat().st_size >= LOG_BYTES or shutil.disk_usage(self.folder).free < LOG_ROOM_BYTES:
                return
            with self.transaction():  # Nobody else writes to the log meanwhile.
                log = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    size = os.fstat(log).st_size
                    try:
                        os.pwrite(log, bytes(max(0, LOG_BYTES - size)), size)
                    except OSError:
                        os.ftruncate(log, size)
                        raise
                finally:
                    os.close(log)

    @contextlib.contextmanager
    def _not_waiting(self) -> Iterator[None]:
        """While it lasts, who writes is not waited for: BusyError is raised at once."""
        self._connection.execute("PRAGMA busy_timeout=0").fetchall()
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}").fetchall()

    def fold_some(self) -> None:
        """Move the write-ahead log into the file, as far as nobody is in the way; waits for no one."""
        with translated(self.folder):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read within belongs to one moment, whatever others write meanwhile."""
        self._insist_on_own_process()
        if self._depth or self._connection.in_transaction:
            yield
            return
        try:
            with translated(self.folder):
                self._connection.execute("BEGIN")
                self._look()
            yield
        finally:
            self.is_still = False
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("COMMIT")

    def first(self, statement: str, *values: object) -> tuple[object, ...] | None:
        """Return the first row of a query, None if it has none."""
        self._insist_on_own_process()
        try:  # The hot path: a context manager would cost more than the query.
            row: tuple[object, ...] | None = self._connection.execute(statement, values).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            with translated(self.folder):
                raise error
        return row

    def blob(self, statement: str, *values: object) -> bytes | None:
        """Return the one column of the first row of a query, None if it has none; raises DamagedStoreError."""
        row = self.first(statement, *values)
        if row is None:
            return None
        if not isinstance(row[0], bytes):
            raise DamagedStoreError(f"A row of the store in {self.folder} holds something else than bytes.")
        return row[0]

    def each(self, statement: str, *values: object) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a query; raises DamagedStoreError where the file does not hold together."""
        self._insist_on_own_process()
        with translated(self.folder):
            yield from self._connection.execute(statement, values)

    def write(self, statement: str, *values: object) -> int:
        """Change something within a transaction; return how many rows changed."""
        if " rows" in statement:
            self.moment += 1
        assert self._depth and self._connection.in_transaction, "a write outside a transaction"
        with translated(self.folder):
            return self._connection.execute(statement, values).rowcount

    def count(self, table: int, name: bytes, added: int) -> None:
        """Note in the tally that the row `name` was added (1) or removed (-1)."""
        n, x = self._changes.setdefault(table, [0, 0])
        self._changes[table] = [n + added, x ^ int.from_bytes(name[:TALLY_BYTES], "big")]

    def tally(self, table: int) -> tuple[int, int]:
        """Return the number of rows that `table` should have, and the XOR of their names."""
        match self.first("SELECT n, x FROM tally WHERE t=?", table):
            case [int(n), bytes(x)] if 0 <= n <= _TALLY_MAX and len(x) == TALLY_BYTES:
                return n, int.from_bytes(x, "big")
        raise DamagedStoreError(f"The tally of table {TABLES[table]} is damaged; run `hhd check --repair`.")

    def bytes_used(self) -> int:
        """Return the size of the file, write-ahead log apart."""
        return self._pragma("page_count") * self._pragma("page_size")

    def bytes_free(self) -> int:
        """Return how much of the file is free for use again."""
        return self._pragma("freelist_count") * self._pragma("page_size")

    def shrink(self) -> None:
        """Give free space back to the disk; needs as much room again as the store uses."""
        assert not self._depth
        with translated(self.folder):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def fold(self) -> None:
        """Move the write-ahead log into the file, as far as no reader needs it."""
        with translated(self.folder):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def integrity(self) -> list[str]:
        """Return what SQLite itself finds wrong with the file; empty if nothing."""
        try:
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check(100)")]
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            return [str(error)]
        return [] if found == ["ok"] else found

    def _pragma(self, name: str) -> int:
        row = self.first(f"PRAGMA {name}")
        assert row is not None and isinstance(row[0], int)
        return row[0]

    def _write_tally(self) -> None:
        for table, (added, changed) in self._changes.items():
            n, x = self.tally(table)
            self.write(
                "UPDATE tally SET n=?, x=? WHERE t=?", n + added, (x ^ changed).to_bytes(TALLY_BYTES, "big"), table
            )

    def _insist_on_own_process(self) -> None:
        assert self._pid == os.getpid(), "a store was carried across a fork: open it anew in the child"


class _Transaction:
    """One `with` of a transaction; a class: a checkpoint enters a dozen, and a generator costs three times as much."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._database.leave(failed=kind is not None)
