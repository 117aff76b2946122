"""The store as a list reads it: the catalogue and what names are shown, and nothing of what sessions consist of.

A whole `Store` imports what reads images and logs, which takes longer than to read ten thousand lines of a list. This
one never writes; where it finds something missing, behind or damaged, its user opens a `Store` and mends it.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from hhd.store import locks
from hhd.store.catalogue import Catalogue
from hhd.store.database import Database
from hhd.store.errors import DamagedStoreError
from hhd.store.freshness import Freshness
from hhd.store.group import GroupDocument
from hhd.store.layout import FILE
from hhd.store.note import note_is_current
from hhd.store.rows import Rows
from hhd_protocol.crypto import derive, device_id, public_key
from hhd_protocol.ids import SessionId

DIRECTORY = "directory"
"""As in `hhd.store.store`."""


class Lists:
    """A store that is open for reading lists; see the module. Used as a context."""

    def __init__(self, folder: Path, database: Database, opened: locks.Lock, seed: bytes) -> None:
        self._folder, self._database, self._opened = folder, database, opened
        self._lock_key, self.device = derive(seed, "locks"), device_id(public_key(seed))
        self._rows = Rows(database, derive(seed, "store"), os.urandom)
        self.catalogue, self.shared = Catalogue(self._rows), GroupDocument(self._rows, os.urandom)
        self.freshness = Freshness(self._rows)

    @classmethod
    def open(cls, folder: Path, *, seed: bytes) -> Lists | None:
        """Open the lists of the store in `folder`; None where only a `Store` can: it is new, older, damaged or alone.

        Who opens a store alone looks at what a crash may have left, so a write-ahead log is left to `Store`.
        """
        if not note_is_current(folder, device_id(public_key(seed))):
            return None
        log = folder / f"{FILE}-wal"
        if log.exists() and log.stat().st_size and (alone := locks.take(folder / "open.lock")) is not None:
            alone.release()
            return None
        opened = locks.take(folder / "open.lock", shared=True)
        if opened is None:
            return None
        try:
            return cls(folder, Database.open(folder), opened, seed)
        except DamagedStoreError:
            opened.release()
            return None
        except BaseException:
            opened.release()
            raise

    def snapshot(self) -> AbstractContextManager[None]:
        """What is read within belongs to one moment."""
        return self._database.snapshot()

    def sessions_count(self) -> int:
        """Return how many sessions there are."""
        return self._rows.listing_length(DIRECTORY, b"")

    def is_advanced(self, session: SessionId) -> bool:
        """Say whether a process of this device is advancing a session right now."""
        return locks.held(locks.path_of(self._folder, self._lock_key, session))

    def close(self) -> None:
        """Close it; again does nothing."""
        self._database.close()
        self._opened.release()

    def __enter__(self) -> Lists:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
