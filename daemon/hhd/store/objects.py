"""Sealed objects in the file: put once, found by name, never changed.

The row number is the first 63 bits of the name, so that finding one needs no second index. Two names that share them
are as good as impossible in a store that fits a disk (one in 10^7 at a million objects); if it happens, the second
is refused, never mixed up.
"""

from __future__ import annotations

from collections.abc import Iterator

from hhd.base import passing
from hhd.store.database import Database
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import OBJECTS
from hhd_protocol.ids import ObjectName
from hhd_protocol.objects import object_name


class Objects:
    """The table `objects` of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, raw: bytes, *, name: ObjectName | None = None) -> ObjectName:
        """Keep an object and return its name (`name`, where who gives it has compared). Again changes nothing."""
        name = name or object_name(raw)
        number = row_number(name)
        with self._database.transaction():
            if self._database.write("INSERT OR IGNORE INTO objects VALUES(?,?)", number, raw) > 0:
                self._database.count(OBJECTS, tally_name(number), 1)
                passing.more(len(raw), what="storing")
                return name
        if self.raw(name) != raw:
            raise DamagedStoreError(f"Object {name.hex()[:16]} is in the store with other bytes; run `hhd check`.")
        return name

    def raw(self, name: ObjectName) -> bytes | None:
        """Return the sealed bytes, None if there are none; they are not compared with the name here."""
        return self._database.blob("SELECT sealed FROM objects WHERE n=?", row_number(name))

    def has(self, name: ObjectName) -> bool:
        """Say whether the object is here."""
        return self._database.first("SELECT 1 FROM objects WHERE n=?", row_number(name)) is not None

    def size(self, name: ObjectName) -> int:
        """Return the sealed size, 0 if it is not here."""
        return self.size_of(row_number(name))

    def size_of(self, number: int) -> int:
        """Return the sealed size of the object in row `number`, 0 if there is none."""
        row = self._database.first("SELECT length(sealed) FROM objects WHERE n=?", number)
        return row[0] if row is not None and isinstance(row[0], int) else 0

    def numbers(self) -> Iterator[int]:
        """Yield the row numbers of all objects; raises DamagedStoreError at one that no name has."""
        for (number,) in self._database.each("SELECT n FROM objects"):
            if not isinstance(number, int) or number < 0:
                raise DamagedStoreError("An object of the store is under a number that no object has.")
            yield number

    def remove(self, number: int) -> int:
        """Remove an object by row number, return its sealed size; within a transaction."""
        size = self.size_of(number)
        if self._database.write("DELETE FROM objects WHERE n=?", number) > 0:
            self._database.count(OBJECTS, tally_name(number), -1)
        return size


def row_number(name: ObjectName) -> int:
    """Return the row number of an object."""
    return int.from_bytes(name[:8], "big") >> 1


def tally_name(number: int) -> bytes:
    """Return what stands for an object in the tally."""
    return number.to_bytes(16, "big")
