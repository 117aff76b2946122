"""What the devices of one person share as one document, kept in pieces that are sealed under a key of this store.

The key leaves this store as little as the pieces do: the document goes over links to full members as it is. Rows are
sealed under the device's key as well, like all of them. Every piece is kept twice: one damaged page of the file costs
nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import Rows
from hhd_protocol.codec import decode_own, encode
from hhd_protocol.crypto import KEY_BYTES, NONCE_BYTES, SealError, seal, unseal
from hhd_protocol.errors import FormatError

PIECES, MARK, SHOWN, KEY = "shared", "shared-mark", "shared-shown", "group-key"
"""Tables of rows: pieces of the document, what they come to, what lists show of it, the key."""

_AD = b"hhd1.shared"


class GroupDocument:
    """The pieces of the one shared document of this store, what they come to (`mark`), what is shown of them."""

    def __init__(self, rows: Rows, random: Callable[[int], bytes]) -> None:
        self._rows, self._random = rows, random

    def mark(self) -> bytes | None:
        """Return the mark of the whole, None if nothing was ever kept, or it is damaged."""
        try:
            return self._rows.get_either(MARK, b"", b"")
        except DamagedStoreError:
            return None

    def pieces(self) -> tuple[list[bytes], int]:
        """Return the pieces that are whole, in the order they came, and how many are not."""
        count = self._rows.ledger(b"").get(PIECES, 0)
        if not count:
            return [], 0
        try:
            key = self.key()
        except DamagedStoreError:
            return [], count
        found = []
        for position in range(count):
            try:
                raw = self._rows.either_at(PIECES, b"", position)
                if raw is not None:
                    found.append(unseal(key, raw[:NONCE_BYTES], raw[NONCE_BYTES:], ad=_AD))
            except (DamagedStoreError, SealError):
                continue
        return found, count - len(found)

    def append(self, piece: bytes, mark: bytes) -> None:
        """Keep one more piece; within a transaction."""
        self._put(self._rows.ledger(b"").get(PIECES, 0), piece)
        self._rows.put_twice(MARK, b"", b"", mark)

    def replace(self, piece: bytes, mark: bytes) -> None:
        """Keep this piece instead of all others; within a transaction."""
        self._rows.cut(PIECES, b"", 1)
        try:
            self.key()
        except DamagedStoreError:  # What was sealed under it cannot be read any more; this piece can.
            self._rows.delete_both(KEY, b"", b"")
        self._put(0, piece)
        self._rows.put_twice(MARK, b"", b"", mark)

    def shown(self) -> bytes | None:
        """Return what lists show of the document; None if nothing, or it is damaged and is to be made again."""
        try:
            return self._rows.get(SHOWN, b"", b"")
        except DamagedStoreError:
            return None

    def show(self, shown: bytes) -> None:
        """Set what lists show of the document."""
        self._rows.put(SHOWN, b"", b"", shown)

    def _put(self, position: int, piece: bytes) -> None:
        nonce = self._random(NONCE_BYTES)
        self._rows.put_at(PIECES, b"", position, nonce + seal(self.key(), nonce, piece, ad=_AD), twice=True)

    def key(self) -> bytes:
        """Return the document's key, made when it is first needed."""
        raw = self._rows.get_either(KEY, b"", b"")
        if raw is None:
            key = self._random(KEY_BYTES)
            self._rows.put_twice(KEY, b"", b"", encode([1, key]))
            return key
        try:
            match decode_own(raw):
                case [1, bytes(key)] if len(key) == KEY_BYTES:
                    return key
        except FormatError:
            pass
        raise DamagedStoreError("The key of the shared document is not in the form it was written in.")
