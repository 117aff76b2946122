"""Small sealed things by name: records, journals, keys, lists, each under a name that says nothing without the key.

A name is a keyed hash of (table, scope, key), so nobody without the key sees which rows belong to one session, or how
many it has. A value is padded before it is sealed, bound to its name, and sealed under a key of this device alone.

Two shapes grow: a *log* (rows 0, 1, 2, … of one scope, append only), whose length is found by probing, and a *listing*
(32-byte entries in blocks of 26, one row a block), for what is listed far more often than read. Each
change is durable when it returns, or at the end of the transaction around it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache

from hhd.store.database import Database
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import ROWS, SPARE
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.crypto import NONCE_BYTES, SealError, derive, seal, unseal
from hhd_protocol.errors import FormatError

ENTRY_BYTES = 32
BLOCK_ENTRIES = 26
"""So that a block stays within its page of the file, and 10,000 entries are 385 rows."""

REMEMBERED_BYTES_MAX = 32 * 1024 * 1024
"""What a check holds of the rows it opened: those of some 50,000 checkpoints."""

RECENT_ROWS, RECENT_BYTES_MAX = 256, 2048
"""Rows that were just read or set are not opened again while their sealed bytes are the same, nor looked up again while
nobody can have changed them: a step reads each of a dozen three times. Larger values are not held."""

NAMES_KEPT = 4096
"""Names of rows that were asked for."""

ASKED_AT_ONCE = 256
"""Names in one query: a page of results is small, and SQLite takes 32,766 at most (999 before 3.32)."""

LEDGER = "ledger"
NAME_BYTES = 16


class Rows:
    """The table `rows` of one store, under the keys of this device."""

    def __init__(self, database: Database, local_key: bytes, random: Callable[[int], bytes]) -> None:
        self._database, self._random = database, random
        self._name_key, self._seal_key = derive(local_key, "row-names"), derive(local_key, "rows")
        self._lengths: dict[tuple[str, bytes], int] = {}
        self._recent: dict[bytes, tuple[bytes, bytes]] = {}
        self._here: dict[bytes, bytes | None] = {}
        """Rows, and None for what is no row, as they are at the database's moment `_moment`."""
        self._moment = -1
        self._remembered: dict[bytes, tuple[bytes, bytes]] = {}
        self._room = 0
        self.name = lru_cache(NAMES_KEPT)(self._name)
        """The name of the row of (table, scope, key): 16 bytes."""

    def _name(self, table: str, scope: bytes, key: bytes) -> bytes:
        text = b"%s\0%d\0%s%s" % (table.encode("ascii"), len(scope), scope, key)
        return hashlib.blake2b(text, digest_size=NAME_BYTES, key=self._name_key, person=b"hhd1.row").digest()

    def transaction(self) -> AbstractContextManager[None]:
        """What is written within becomes durable together, as `Database.transaction` says."""
        return self._database.transaction()

    def get(self, table: str, scope: bytes, key: bytes) -> bytes | None:
        """Return the value of a row, None if there is no such row; raises DamagedStoreError."""
        name, here = self.name(table, scope, key), self._now()
        if name in here:
            return here[name]
        sealed = self._database.blob("SELECT sealed FROM rows WHERE name=?", name)
        if sealed is None:
            self._note(name, None)
            return None
        known = self._recent.get(name)
        if known is not None and known[0] == sealed:
            self._note(name, known[1])
            return known[1]
        value = self._opened(name, sealed, table)
        self._hold(name, sealed, value)
        self._note(name, value)
        return value

    def _now(self) -> dict[bytes, bytes | None]:
        """What is known of rows at this moment; empty where others may be writing."""
        database = self._database
        if not database.is_still or self._room:  # A check reads what is there.
            return {}
        if self._moment != database.moment:
            self._here.clear()
            self._moment = database.moment
        return self._here

    def _note(self, name: bytes, value: bytes | None) -> None:
        """Note what a row is at this moment, as it was just found, or set."""
        if self._moment != self._database.moment or not self._database.is_still or self._room:
            return
        if value is None or len(value) <= RECENT_BYTES_MAX:
            if len(self._here) >= RECENT_ROWS:
                self._here.clear()
            self._here[name] = value

    def _write(self, statement: str, *values: object) -> int:
        """Change rows; what is known of all others holds."""
        self._now()
        changed = self._database.write(statement, *values)
        self._moment = self._database.moment
        return changed

    def _hold(self, name: bytes, sealed: bytes, value: bytes) -> None:
        """Note what was just read or set: whoever reads the same bytes again need not open them."""
        if len(value) <= RECENT_BYTES_MAX:
            self._recent[name] = sealed, value
            if len(self._recent) > RECENT_ROWS:
                del self._recent[next(iter(self._recent))]

    def each_of(self, table: str, scope: bytes, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        """Yield what `get` returns for each of `keys`, asking for many at a time; raises DamagedStoreError."""
        for begin in range(0, len(keys), ASKED_AT_ONCE):
            names = [self.name(table, scope, key) for key in keys[begin : begin + ASKED_AT_ONCE]]
            marks = ",".join("?" * len(names))
            query = f"SELECT name, sealed FROM rows WHERE name IN ({marks})"
            found: dict[object, object] = {name: sealed for name, sealed in self._database.each(query, *names)}
            for name in names:
                sealed = found.get(name)
                yield None if sealed is None else self._opened(name, sealed, table)

    def nonces(self, names: Sequence[bytes]) -> dict[object, object]:
        """Return the nonces of the rows of these names, of those that are there: another each time a row is set."""
        found: dict[object, object] = {}
        for begin in range(0, len(names), ASKED_AT_ONCE):
            some = names[begin : begin + ASKED_AT_ONCE]
            query = (
                f"SELECT name, substr(sealed, 1, {NONCE_BYTES}) FROM rows WHERE name IN ({','.join('?' * len(some))})"
            )
            found.update((name, nonce) for name, nonce in self._database.each(query, *some))
        return found

    def _opened(self, name: bytes, sealed: object, table: str) -> bytes:
        if not isinstance(sealed, bytes):
            raise DamagedStoreError(f"Row {name.hex()} of {table} holds something else than bytes; run `hhd check`.")
        known = self._remembered.get(name)
        return known[1] if known is not None and known[0] == sealed else self.opened(name, sealed, table)

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Within a snapshot: what `remember` is given is not opened again. It is looked up again: damage may hide a
        row from who asks for its name, and not from who reads all."""
        self._room = REMEMBERED_BYTES_MAX
        try:
            yield
        finally:
            self._remembered, self._room = {}, 0

    def remember(self, name: bytes, sealed: bytes, value: bytes) -> None:
        """Note what the row `name` holds, while there is room."""
        self._room -= 2 * len(value)
        if self._room > 0:
            self._remembered[name] = sealed, value

    def opened(self, name: bytes, sealed: bytes, table: str = "rows") -> bytes:
        """Return what a row holds; raises DamagedStoreError if its seal does not hold."""
        try:
            padded = unseal(self._seal_key, sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], ad=name)
        except (SealError, ValueError, TypeError) as error:
            raise DamagedStoreError(f"Row {name.hex()} of {table} is damaged; run `hhd check`.") from error
        return padded[4 : 4 + int.from_bytes(padded[:4], "little")]

    def put(self, table: str, scope: bytes, key: bytes, value: bytes) -> None:
        """Set a row, new or not."""
        with self._database.transaction():
            name = self.name(table, scope, key)
            sealed = self._sealed(name, value)
            self._hold(name, sealed, value)
            self._here.pop(name, None)
            if not self._write("UPDATE rows SET sealed=? WHERE name=?", sealed, name):
                self._write("INSERT INTO rows VALUES(?,?)", name, sealed)
                self._database.count(ROWS, name, 1)
            self._note(name, value)

    def add(self, table: str, scope: bytes, key: bytes, value: bytes) -> bool:
        """Set a row if it is new and say whether it was."""
        with self._database.transaction():
            name = self.name(table, scope, key)
            self._here.pop(name, None)
            if not self._write("INSERT OR IGNORE INTO rows VALUES(?,?)", name, self._sealed(name, value)):
                return False
            self._database.count(ROWS, name, 1)
            self._note(name, value)
            return True

    def delete(self, table: str, scope: bytes, key: bytes) -> bool:
        """Remove a row and say whether there was one."""
        with self._database.transaction():
            name = self.name(table, scope, key)
            self._here.pop(name, None)
            if not self._write("DELETE FROM rows WHERE name=?", name):
                return False
            self._database.count(ROWS, name, -1)
            return True

    def put_twice(self, table: str, scope: bytes, key: bytes, value: bytes) -> None:
        """Set a row that must not be lost, and its spare copy."""
        with self._database.transaction():
            self.put(table, scope, key, value)
            name = self.name(table, scope, key)
            sealed = self._sealed(name, value)
            if not self._database.write("UPDATE spare SET sealed=? WHERE name=?", sealed, name):
                self._database.write("INSERT INTO spare VALUES(?,?)", name, sealed)
                self._database.count(SPARE, name, 1)

    def get_either(self, table: str, scope: bytes, key: bytes) -> bytes | None:
        """Return the value of a row that was set twice, as long as one copy is whole; None if there is neither."""
        try:
            if (value := self.get(table, scope, key)) is not None:
                return value
        except DamagedStoreError:
            pass  # `hhd check` names it; the other copy serves meanwhile.
        name = self.name(table, scope, key)
        sealed = self._database.blob("SELECT sealed FROM spare WHERE name=?", name)
        return None if sealed is None else self.opened(name, sealed, table)

    def delete_both(self, table: str, scope: bytes, key: bytes) -> None:
        """Remove a row that was set twice."""
        with self._database.transaction():
            self.delete(table, scope, key)
            name = self.name(table, scope, key)
            if self._database.write("DELETE FROM spare WHERE name=?", name):
                self._database.count(SPARE, name, -1)

    # A log: rows 0, 1, 2, … of one scope.

    def append(self, table: str, scope: bytes, value: bytes) -> int:
        """Add `value` to the end of a log, return its position; durable when the transaction is."""
        with self._database.transaction():
            position = self.length(table, scope)
            self.put(table, scope, position_key(position), value)
            self._lengths[table, scope] = position + 1
            self.keep_ledger(scope, {**self.ledger(scope), table: position + 1})
            return position

    def length(self, table: str, scope: bytes) -> int:
        """Return how many rows a log has now."""
        low = self._lengths.get((table, scope), 0)
        if low and not self._has(table, scope, low - 1):
            low = 0  # The transaction that added them was rolled back, or the log was removed.
        step = 1
        while self._has(table, scope, low + step - 1):
            low, step = low + step, step * 2
        while step > 1:
            step //= 2
            if self._has(table, scope, low + step - 1):
                low += step
        self._lengths[table, scope] = low
        return low

    def log(self, table: str, scope: bytes, start: int = 0) -> Iterator[bytes]:
        """Yield the values of a log from position `start` on."""
        while (value := self.get(table, scope, position_key(start))) is not None:
            yield value
            start += 1

    def at(self, table: str, scope: bytes, position: int) -> bytes | None:
        """Return the value at `position` of a log, None past its end."""
        return self.get(table, scope, position_key(position))

    def put_at(self, table: str, scope: bytes, position: int, value: bytes, *, twice: bool = False) -> None:
        """Set the value at `position` of a log; at its end, as the ledger has it, this adds a row."""
        with self._database.transaction():
            ledger = self.ledger(scope)
            assert 0 <= position <= ledger.get(table, 0)
            (self.put_twice if twice else self.put)(table, scope, position_key(position), value)
            if position == ledger.get(table, 0):
                self.keep_ledger(scope, {**ledger, table: position + 1})

    def cut(self, table: str, scope: bytes, length: int) -> None:
        """Shorten a log to its first `length` rows, also where damage left gaps."""
        with self._database.transaction():
            ledger = self.ledger(scope)
            for position in range(length, min(ledger.get(table, 0), length + self._count())):
                self.delete_both(table, scope, position_key(position))
            self._lengths.pop((table, scope), None)
            self.keep_ledger(scope, {**ledger, table: min(length, ledger.get(table, 0))})

    def either_at(self, table: str, scope: bytes, position: int) -> bytes | None:
        """Return the value at `position` of a log that was set twice, as long as one copy is whole."""
        return self.get_either(table, scope, position_key(position))

    def remove_log(self, table: str, scope: bytes) -> int:
        """Remove a whole log, or listing, and return how many rows it had."""
        with self._database.transaction():
            count = self.length(table, scope)
            for position in range(count):
                self.delete(table, scope, position_key(position))
            self._lengths.pop((table, scope), None)
            ledger = self.ledger(scope)
            if ledger.pop(table, None) is not None:
                self.keep_ledger(scope, ledger)
            return count

    def ledger(self, scope: bytes) -> dict[str, int]:
        """Return how long each log and listing of a scope should be: what `hhd check` misses rows by."""
        raw = self.get_either(LEDGER, scope, b"")
        fields = decoded(raw, "ledger of a scope") if raw is not None else {}
        if isinstance(fields, dict):
            counts = {table: count for table, count in fields.items() if isinstance(table, str) and type(count) is int}
            if len(counts) == len(fields) and min(counts.values(), default=0) >= 0:
                return counts
        raise DamagedStoreError("The ledger of a scope is not in the form it was written in.")

    def mend_log(self, table: str, scope: bytes, length: int) -> int:
        """Close the gaps that damage left among `length` rows of a log; return how many rows were lost."""
        with self._database.transaction():
            kept: list[bytes] = []
            possible = min(length, self._count())
            for position in range(possible):
                try:
                    if (value := self.at(table, scope, position)) is not None:
                        kept.append(value)
                except DamagedStoreError:
                    continue
            if len(kept) < length:
                for position in range(possible):
                    self.delete(table, scope, position_key(position))
                self._lengths.pop((table, scope), None)
                self.keep_ledger(scope, {**self.ledger(scope), table: 0})
                for value in kept:
                    self.append(table, scope, value)
            return length - len(kept)

    def keep_ledger(self, scope: bytes, ledger: dict[str, int]) -> None:
        """Write down how long each log and listing of a scope is."""
        values: dict[Value, Value] = {table: count for table, count in ledger.items() if count}
        if values:
            self.put_twice(LEDGER, scope, b"", encode(values))
        else:
            self.delete_both(LEDGER, scope, b"")

    # A listing: 32-byte entries, 26 in a row.

    def enlist(self, table: str, scope: bytes, entry: bytes) -> None:
        """Add `entry` to the end of a listing."""
        with self._database.transaction():
            assert len(entry) == ENTRY_BYTES
            last = self.length(table, scope) - 1
            block = self.at(table, scope, last) if last >= 0 else None
            if block is None or len(block) >= BLOCK_ENTRIES * ENTRY_BYTES:
                self.append(table, scope, entry)
            else:
                self.put(table, scope, position_key(last), block + entry)

    def listing(self, table: str, scope: bytes) -> list[bytes]:
        """Return the entries of a listing, oldest first."""
        joined = b"".join(self.log(table, scope))
        return [joined[i : i + ENTRY_BYTES] for i in range(0, len(joined), ENTRY_BYTES)]

    def listing_from(self, table: str, scope: bytes, start: int) -> list[bytes]:
        """Return the entries of a listing from position `start` on; of the blocks before them nothing is read."""
        begin = start // BLOCK_ENTRIES
        joined = b"".join(self.log(table, scope, begin))
        skip = (start - begin * BLOCK_ENTRIES) * ENTRY_BYTES
        return [joined[i : i + ENTRY_BYTES] for i in range(skip, len(joined), ENTRY_BYTES)]

    def listing_length(self, table: str, scope: bytes) -> int:
        """Return how many entries a listing has; two rows are read, however many there are."""
        last = self.length(table, scope) - 1
        block = self.at(table, scope, last) if last >= 0 else None
        return last * BLOCK_ENTRIES + len(block) // ENTRY_BYTES if block is not None else 0

    def relist(self, table: str, scope: bytes, entries: list[bytes]) -> None:
        """Replace a listing."""
        with self._database.transaction():
            self.remove_log(table, scope)
            for begin in range(0, len(entries), BLOCK_ENTRIES):
                self.append(table, scope, b"".join(entries[begin : begin + BLOCK_ENTRIES]))

    def _count(self) -> int:
        """Return how many rows there are in all: no log is longer, whatever its ledger says."""
        row = self._database.first("SELECT count(*) FROM rows")
        assert row is not None and isinstance(row[0], int)
        return row[0]

    def _has(self, table: str, scope: bytes, position: int) -> bool:
        name = self.name(table, scope, position_key(position))
        if (here := self._now()) and name in here:
            return here[name] is not None
        found = self._database.first("SELECT 1 FROM rows WHERE name=?", name) is not None
        if not found:
            self._note(name, None)
        return found

    def _sealed(self, name: bytes, value: bytes) -> bytes:
        nonce = self._random(NONCE_BYTES)
        padded = (len(value).to_bytes(4, "little") + value).ljust(_padded(len(value) + 4), b"\0")
        return nonce + seal(self._seal_key, nonce, padded, ad=name)


def decoded(raw: bytes, what: str) -> Value:
    """Return the value that a row holds; raises DamagedStoreError, naming `what`, if it holds none."""
    try:
        return decode_own(raw)
    except FormatError as error:
        raise DamagedStoreError(f"The {what} is not in the form it was written in: {error}.") from error


def position_key(position: int) -> bytes:
    """Return the key of the row at a position of a log."""
    return position.to_bytes(8, "big")


def _padded(length: int) -> int:
    """Round up to a 16th of the size, at least 64: what is left to see is a message's order of magnitude."""
    step = max(64, 1 << max(0, length.bit_length() - 5))
    return -(-length // step) * step
