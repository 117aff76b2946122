"""A group written down record by record, for tests: who says what, having seen which records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.group import Add, Allow, Found, Group, GroupRecord, Join, Revoke, resolve, sign
from hhd_protocol.group.causes import Causes
from hhd_protocol.ids import DeviceId, GroupRecordId, SessionId, StatementId
from hhd_protocol.statements import Role

LAPTOP, DESKTOP, TOWER, PHONE, THIEF = (
    name.ljust(32, b"\0") for name in (b"laptop", b"desktop", b"tower", b"phone", b"thief")
)


def device(seed: bytes) -> DeviceId:
    return device_id(public_key(seed))


@dataclass
class Circle:
    """Records, and what each device has seen of them; without a word, everybody has seen everything."""

    records: list[GroupRecord] = field(default_factory=list)
    clock: int = 1_700_000_000_000

    def seen(self, records: Iterable[GroupRecord] | None) -> tuple[GroupRecordId, ...]:
        return tuple(sorted(Causes(self.records if records is None else records).ends()))

    def put(self, record: GroupRecord) -> GroupRecord:
        self.records.append(record)
        return record

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def found(self, by: bytes = LAPTOP, *, former: GroupRecord | None = None) -> GroupRecord:
        name = by.rstrip(b"\0").decode()
        seen = () if former is None else self.seen(None)
        body = Found(public=public_key(by), name=name, at_ms=self.tick(), seen=seen, former=former and former.id)
        return self.put(sign(body, by))

    def add(
        self,
        by: bytes,
        under: GroupRecord,
        whom: bytes,
        role: Role = Role.FULL,
        *,
        saw: Iterable[GroupRecord] | None = None,
    ) -> GroupRecord:
        body = Add(
            public=public_key(by),
            under=under.id,
            seen=self.seen(saw),
            at_ms=self.tick(),
            member=public_key(whom),
            name=whom.rstrip(b"\0").decode(),
            role=role,
        )
        return self.put(sign(body, by))

    def join(self, by: bytes, under: GroupRecord, *, former: GroupRecord | None = None) -> GroupRecord:
        body = Join(
            public=public_key(by), under=under.id, seen=self.seen(None), at_ms=self.tick(), former=former and former.id
        )
        return self.put(sign(body, by))

    def revoke(
        self,
        by: bytes,
        under: GroupRecord,
        *memberships: GroupRecord,
        whom: bytes,
        saw: Iterable[GroupRecord] | None = None,
        cutoffs: Mapping[SessionId, tuple[StatementId, ...]] | None = None,
    ) -> GroupRecord:
        body = Revoke(
            public=public_key(by),
            under=under.id,
            seen=self.seen(saw),
            at_ms=self.tick(),
            device=device(whom),
            memberships=tuple(sorted(one.id for one in memberships)),
            cutoffs=cutoffs or {},
        )
        return self.put(sign(body, by))

    def allow(
        self, by: bytes, under: GroupRecord, to: GroupRecord, approve: bool, *, saw: Iterable[GroupRecord] | None = None
    ) -> GroupRecord:
        body = Allow(
            public=public_key(by),
            under=under.id,
            seen=self.seen(saw),
            at_ms=self.tick(),
            membership=to.id,
            approve=approve,
        )
        return self.put(sign(body, by))

    def group(self, root: GroupRecord) -> Group:
        return resolve(self.records, root=root.id)


def names(devices: Iterable[DeviceId]) -> set[str]:
    """What tests call these devices."""
    known = {device(seed): seed.rstrip(b"\0").decode() for seed in (LAPTOP, DESKTOP, TOWER, PHONE, THIEF)}
    return {known[one] for one in devices}
