"""The second pass of fencing: which ownership records count, and which of them is the highest."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.fencing.view import Standing
from hhd_protocol.ids import DeviceId, StatementId
from hhd_protocol.statements import Record, RecordKind, Role


class Chain:
    """The ownership records: which count, and which of those is the highest."""

    def __init__(
        self,
        session: StatementId,
        records: Mapping[StatementId, Record],
        members: Mapping[DeviceId, Role],
        cutoffs: Cutoffs,
    ) -> None:
        self.records = records
        self._session = session
        self._members = members
        self._cutoffs = cutoffs
        self.standings: dict[StatementId, Standing] = {}
        # Numbers rise by one along the chain, so ascending order sees a predecessor before what stands on it.
        for record in sorted(records.values(), key=lambda record: (record.number, record.id)):
            self.standings[record.id] = self._judge(record)
        counting = [records[id] for id, standing in self.standings.items() if standing is Standing.COUNTS]
        self.top = max(counting, key=_rank, default=None)

    def _judge(self, record: Record) -> Standing:
        if not record.signature_good or not self._follows_the_rules(record):
            return Standing.REFUSED
        below = Standing.COUNTS
        if record.prev is not None:
            below = self.standings.get(record.prev, Standing.HELD)
        if below is Standing.REFUSED:
            return Standing.REFUSED
        if below is Standing.HELD or not {record.by, record.to} <= self._members.keys():
            return Standing.HELD
        return Standing.SEALED if self._cutoffs.seals(record) else Standing.COUNTS

    def _follows_the_rules(self, record: Record) -> bool:
        """Whether nothing that is here already speaks against the record; what is not here yet may still."""
        if any(self._members.get(device, Role.FULL) is not Role.FULL for device in (record.by, record.to)):
            return False
        if record.kind is RecordKind.CREATE:
            own = record.id == self._session and record.to == record.by
            return own and record.number == 1 and record.prev is None and record.head is None
        prev = self.records.get(record.prev) if record.prev is not None else None
        if record.prev is None or record.pending or (prev is not None and record.number != prev.number + 1):
            return False
        if record.kind is RecordKind.TAKEOVER:
            return record.to == record.by
        return record.to != record.by and (prev is None or record.by == prev.to)

    def upward(self) -> list[Record]:
        """The chain from the create record to the top one."""
        path: list[Record] = []
        at = self.top
        while at is not None:
            path.append(at)
            at = self.records.get(at.prev) if at.prev is not None else None
        return path[::-1]


def _rank(record: Record) -> tuple[int, bool, StatementId]:
    """The order of records: the number, then a release before a takeover, then the greater id, as bytes."""
    return record.number, record.kind is RecordKind.RELEASE, record.id
