"""Sealed bytes kept for others, or to be left with them: a store-only device's pile, and this device's letters.

A pile is by name, which is the SHA-256 of the bytes; whoever keeps it can check that and nothing else.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hhd_protocol.ids import SessionId, StatementId

if TYPE_CHECKING:
    from hhd.store.store import Store

BLOB, BLOBS = "blob", ("blobs-object", "blobs-module", "blobs-letter")
"""Tables of rows: sealed bytes by name; the names of each kind."""
LETTER, LETTERS, LETTERED, READERS = "letter", "letters", "lettered", "letter-readers"
"""Letters by name; the names of a session's; the statements that are in them; SHA-256 over who they are sealed to."""
READ = "letters-read"


class Piles:
    """The piles of one store."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, store.rows

    # Of a store-only device

    def put(self, what: int, name: bytes, raw: bytes) -> None:
        """Keep sealed bytes; again changes nothing. Within a transaction."""
        assert hashlib.sha256(raw).digest() == name
        if self._rows.get(BLOB, b"", name) is None:
            self._rows.put(BLOB, b"", name, bytes([what]) + raw)
            self._rows.enlist(BLOBS[what], b"", name)

    def get(self, name: bytes) -> tuple[int, bytes] | None:
        """Return what something is, and its bytes; None if it is not here."""
        raw = self._rows.get(BLOB, b"", name)
        return None if raw is None else (raw[0], raw[1:])

    def names(self) -> dict[bytes, int]:
        """Return all that is kept, by name what it is."""
        return {name: what for what, table in enumerate(BLOBS) for name in self._rows.listing(table, b"")}

    # Of a full member

    def letters(self, session: SessionId) -> list[bytes]:
        """Return the names of the letters that this device wrote of a session."""
        return self._rows.listing(LETTERS, session)

    def letter(self, name: bytes) -> bytes | None:
        """Return a letter that this device wrote."""
        return self._rows.get(LETTER, b"", name)

    def lettered(self, session: SessionId, readers: bytes) -> set[StatementId]:
        """Return the statements that letters to these `readers` have; those to others are forgotten."""
        if self._rows.get(READERS, b"", session) != readers:
            for name in self.letters(session):
                self._rows.delete(LETTER, b"", name)
            for table in (LETTERS, LETTERED):
                self._rows.remove_log(table, session)
            self._rows.put(READERS, b"", session, readers)
        return {StatementId(one) for one in self._rows.listing(LETTERED, session)}

    def write(self, session: SessionId, raw: bytes, statements: list[StatementId]) -> None:
        """Keep one more letter, which has these statements; within a transaction."""
        name = hashlib.sha256(raw).digest()
        self._rows.put(LETTER, b"", name, raw)
        self._rows.enlist(LETTERS, session, name)
        for one in statements:
            self._rows.enlist(LETTERED, session, one)

    def read(self) -> set[bytes]:
        """Return the names of letters that were read here, and need not be read again."""
        return set(self._rows.listing(READ, b""))

    def note_read(self, name: bytes) -> None:
        """A letter was read; within a transaction."""
        self._rows.enlist(READ, b"", name)

    def forget_read(self) -> None:
        """All letters are to be read once more; within a transaction."""
        self._rows.remove_log(READ, b"")

    def forget(self, session: SessionId) -> None:
        """The session is removed; within a transaction."""
        for name in self.letters(session):
            self._rows.delete(LETTER, b"", name)
        for table in (LETTERS, LETTERED):
            self._rows.remove_log(table, session)
        self._rows.delete(READERS, b"", session)
