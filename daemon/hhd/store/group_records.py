"""The signed records of this device's group, and which group it follows: sealed rows, each kept twice.

Nothing is judged here: what a set of records means is `hhd_protocol.group`'s to say over all of them. The era is noted
beside them, in the transaction of the records that it follows from, so that who writes a checkpoint need not ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import Rows
from hhd_protocol.ids import GroupRecordId

RECORDS, ROOT, ERA = "group-records", "group-root", "group-era"
"""Tables of rows: the records in the order they came; the record that founded the group; what revocations come to."""


class GroupRecords:
    """The records of one store."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def root(self) -> GroupRecordId | None:
        """Return the record that founded the group this device is in; None while it is alone and founded none."""
        raw = self._rows.get_either(ROOT, b"", b"")
        return None if raw is None else GroupRecordId(raw)

    def all(self) -> list[bytes]:
        """Return every record, in the order they came; raises DamagedStoreError where both copies of one are gone."""
        found = []
        for position in range(self.count()):
            raw = self._rows.either_at(RECORDS, b"", position)
            if raw is None:
                raise DamagedStoreError(f"Record {position} of the group is missing; run `hhd check`.")
            found.append(raw)
        return found

    def count(self) -> int:
        """Return how many records there are; one row is read."""
        return self._rows.ledger(b"").get(RECORDS, 0)

    def append(self, records: Iterable[bytes], *, root: GroupRecordId, era: bytes | None) -> None:
        """Keep more records, and what all of them come to; within a transaction."""
        for position, raw in enumerate(records, start=self.count()):
            self._rows.put_at(RECORDS, b"", position, raw, twice=True)
        if self.root() != root:
            self._rows.put_twice(ROOT, b"", b"", root)
        if era is not None and self.era() != era:
            self._rows.put_twice(ERA, b"", b"", era)

    def era(self) -> bytes | None:
        """Return what all revocations that count come to, None before the first."""
        return self._rows.get_either(ERA, b"", b"")
