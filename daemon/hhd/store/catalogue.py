"""What is shown of each session in a list: one small value a session, many to a row, so that thousands are read fast.

It is a projection: whatever it says can be found out from the sessions themselves, so damage to it is mended by
making it anew and never stops a session. Values are opaque here; `hhd.node.listing` says what is in them.

A block is a row of a log and holds the values of some two dozen sessions. Which block a session is in follows from a
keyed hash of its id by linear hashing: a block at a time is split as they fill, so nothing is ever moved as a whole,
and finding a session costs one row. The hash is keyed because ids come from strangers, who could pick theirs to all
fall into one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import Rows
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import SessionId

CATALOGUE, FACTS, HEAD_FACTS = "catalogue", "facts", "facts-heads"
"""What lists show; and of that what the shared document says, also of sessions that are not here (by half their id);
and what it says of single heads (by half the session's id and half the head's)."""

VERSION = 1
BLOCK_VALUES = 32
"""Values in a block before one is split. With values of 160 bytes a block lies in two pages of the file: putting one
writes 8 KiB, and ten thousand are read in some 470 rows."""

HALF_BYTES = 16
"""Of a session's id decide where it is, so that it is also found by them: the shared document names no more."""

VALUE_BYTES_MAX = 8192
"""One value: a title, a folder and some numbers, each bounded where it comes in."""


class Catalogue:
    """One catalogue of a store, kept in its rows: the one of `CATALOGUE`, or of another table."""

    def __init__(self, rows: Rows, table: str = CATALOGUE, *, block_values: int = BLOCK_VALUES) -> None:
        self._rows, self._table, self._block_values = rows, table, block_values

    def put(self, session: SessionId, value: bytes) -> None:
        """Set what is shown of a session, in the caller's transaction if there is one.

        A damaged block begins anew with this value alone: whoever lists misses the others and describes them again.
        """
        assert len(value) <= VALUE_BYTES_MAX
        with self._rows.transaction():
            count = self._blocks()
            number = self._place(session, count) if count else 0
            try:
                block = self._block(number) if count else {}
            except DamagedStoreError:
                block = {}
            new = session not in block
            self._write(number, {**block, session: value})
            if new and len(block) >= self._block_values:
                self._split(count)

    def get(self, session: SessionId) -> bytes | None:
        """Return what is shown of a session, None if nothing is; raises DamagedStoreError."""
        count = self._blocks()
        return self._block(self._place(session, count)).get(session) if count else None

    def begins_with(self, half: bytes) -> list[SessionId]:
        """Return the sessions here whose ids begin with these 16 bytes; raises DamagedStoreError."""
        return list(self.under(half))

    def under(self, half: bytes) -> dict[SessionId, bytes]:
        """Return what is shown under ids that begin with these 16 bytes; raises DamagedStoreError."""
        assert len(half) == HALF_BYTES
        count = self._blocks()
        block = self._block(self._place(half, count)) if count else {}
        return {session: value for session, value in block.items() if session[:HALF_BYTES] == half}

    def remove(self, session: SessionId) -> bool:
        """Forget a session and say whether it was there; a damaged block counts as not having it."""
        with self._rows.transaction():
            count = self._blocks()
            number = self._place(session, count) if count else 0
            try:
                block = self._block(number) if count else {}
            except DamagedStoreError:
                return False
            if session not in block:
                return False
            self._write(number, {one: value for one, value in block.items() if one != session})
            return True

    def entries(self) -> dict[SessionId, bytes]:
        """Return what is shown of every session, in no order; raises DamagedStoreError if a block is not whole."""
        found: dict[SessionId, bytes] = {}
        for number in range(self._blocks()):
            found.update(self._block(number))
        return found

    def sound_entries(self) -> dict[SessionId, bytes]:
        """Return what can be read of the entries."""
        found: dict[SessionId, bytes] = {}
        for number in range(self._blocks()):
            try:
                found.update(self._block(number))
            except DamagedStoreError:
                continue
        return found

    def refill(self, entries: Iterable[tuple[SessionId, bytes]]) -> None:
        """Replace the whole catalogue."""
        kept = list(entries)
        with self._rows.transaction():
            self._rows.cut(self._table, b"", 0)
            count = -(-len(kept) * 3 // (2 * self._block_values))  # Two thirds full, as they are by splitting.
            blocks: list[dict[SessionId, bytes]] = [{} for _ in range(count)]
            for session, value in kept:
                assert len(value) <= VALUE_BYTES_MAX
                blocks[self._place(session, count)][session] = value
            for number, block in enumerate(blocks):
                self._write(number, block)

    def _blocks(self) -> int:
        """How many blocks there should be: by the ledger, since a row that vanished is not to be taken for the end."""
        return self._rows.ledger(b"").get(self._table, 0)

    def _place(self, session: bytes, count: int) -> int:
        hashed = int.from_bytes(self._rows.name(self._table, b"place", session[:HALF_BYTES])[:8], "big")
        half = 1 << (count.bit_length() - 1)
        number = hashed % (2 * half)
        return number if number < count else hashed % half

    def _block(self, number: int) -> dict[SessionId, bytes]:
        raw = self._rows.at(self._table, b"", number)
        if raw is None:
            raise DamagedStoreError(f"Block {number} of the catalogue of sessions is missing.")
        try:
            match decode_own(raw):
                case [1, int(found), dict(values)] if found == number:
                    return cast(dict[SessionId, bytes], values)
        except FormatError:
            pass
        raise DamagedStoreError(f"Block {number} of the catalogue of sessions is not in the form it was written in.")

    def _write(self, number: int, block: Mapping[SessionId, bytes]) -> None:
        values: dict[Value, Value] = dict(block.items())
        self._rows.put_at(self._table, b"", number, encode([VERSION, number, values]))

    def _split(self, count: int) -> None:
        """Add a block and move into it what now belongs there, all from one other block."""
        partner = count - (1 << (count.bit_length() - 1))
        try:
            block = self._block(partner)
        except DamagedStoreError:
            block = {}
        moved = {one: value for one, value in block.items() if self._place(one, count + 1) == count}
        self._write(partner, {one: value for one, value in block.items() if one not in moved})
        self._write(count, moved)
