"""What SQLite raises, turned into the errors of a store."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hhd.store.errors import BusyError, DamagedStoreError, FullStoreError


@contextlib.contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn what SQLite raises into our errors."""
    try:
        yield
    except sqlite3.OperationalError as error:
        extended = getattr(error, "sqlite_errorcode", 0)  # An error of the module itself has none.
        code = extended & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError(
                f"Another process is writing to the store in {folder}; nothing was changed. Try again."
            ) from error
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _writing(extended)):
            raise FullStoreError(
                f"The store in {folder} could not be written: the disk is full or refuses ({error}). What was being "
                "stored was not kept; everything before it is. Free some space, then go on."
            ) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(folder, error) from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR):
            raise DamagedStoreError(f"The store in {folder} cannot be read or written: {error}.") from error
        raise DamagedStoreError(f"The store in {folder} does not have the tables of its format: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise _damaged(folder, error) from error
    except UnicodeDecodeError as error:  # The text of the schema, or of an error about it, is damaged.
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> DamagedStoreError:
    return DamagedStoreError(
        f"The store in {folder} is damaged ({error}); nothing was changed. Run `hhd check`, then `hhd check --repair`."
    )


def _writing(code: int) -> bool:
    return code in (
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_DIR_FSYNC,
    )
