"""Who is a member, worked out slowly and straight from the words of `protocol/spec/group.md`.

It shares no code with the product but the records themselves: sets instead of bits, recursion instead of one pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd_protocol.crypto import device_id
from hhd_protocol.group.records import Add, Allow, Found, GroupRecord, Join, Revoke
from hhd_protocol.ids import DeviceId, GroupRecordId
from hhd_protocol.statements import Role

Ids = frozenset[GroupRecordId]


@dataclass(frozen=True)
class Answer:
    """Members now with their roles, who may approve for whom, which revocations count of whom."""

    members: dict[DeviceId, Role]
    approvals: frozenset[tuple[DeviceId, DeviceId]]
    revokes: frozenset[tuple[DeviceId, GroupRecordId]]


class Oracle:
    def __init__(self, records: Iterable[GroupRecord]) -> None:
        self.records = {record.id: record for record in records}
        self._pasts: dict[tuple[GroupRecordId, GroupRecordId], Ids] = {}
        self._good: dict[tuple[GroupRecordId, GroupRecordId], bool] = {}
        self._held: dict[tuple[GroupRecordId, Ids, GroupRecordId], bool] = {}

    def past(self, id: GroupRecordId, root: GroupRecordId) -> Ids:
        """All good records that a record, directly or through good ones, names."""
        key = id, root
        if key not in self._pasts:
            body = self.records[id].body
            named = set(body.seen) | ({body.under} if body.under else set())
            if isinstance(body, Revoke):
                named |= set(body.memberships)
            if isinstance(body, Allow):
                named.add(body.membership)
            if isinstance(body, Found | Join) and body.former:
                named.add(body.former)
            here = {one for one in named if one in self.records and (one == root or self.is_good(one, root))}
            self._pasts[key] = frozenset(here).union(*(self.past(one, root) for one in here))
        return self._pasts[key]

    def answer(self, root: GroupRecordId) -> Answer:
        if root not in self.records:
            return Answer({}, frozenset(), frozenset())
        everything = frozenset(self.records)
        given = [one for one in self.records if self._is_membership(one, root)]
        now = [one for one in given if self._holds(one, everything, root) and not self._revoked(one, everything, root)]
        members: dict[DeviceId, Role] = {}
        least = [Role.STORE_ONLY, Role.CONTROLLER, Role.FULL]
        for one in now:
            device = self._device(one)
            before = members.get(device, Role.FULL)
            members[device] = min(before, self._role(one), key=least.index)
        revokes = frozenset(
            (record.body.device, id)
            for id, record in self.records.items()
            if isinstance(record.body, Revoke)
            and self.is_good(id, root)
            and any(
                self._device(one) == record.body.device
                for one in record.body.memberships
                if one in given and self._holds(one, everything, root)
            )
        )
        return Answer(members, self._approvals(root, now), revokes)

    def _approvals(self, root: GroupRecordId, now: list[GroupRecordId]) -> frozenset[tuple[DeviceId, DeviceId]]:
        live: dict[DeviceId, GroupRecordId] = {}
        least = [Role.STORE_ONLY, Role.CONTROLLER, Role.FULL]
        for one in sorted(now, key=lambda one: (least.index(self._role(one)), one)):
            live.setdefault(self._device(one), one)
        said: dict[tuple[DeviceId, DeviceId], list[GroupRecordId]] = {}
        for id, record in self.records.items():
            body = record.body
            if isinstance(body, Allow) and self.is_good(id, root) and self._is_membership(body.membership, root):
                to = self._device(body.membership)
                if live.get(body.by) == body.under and live.get(to) == body.membership:
                    said.setdefault((body.by, to), []).append(id)
        found = set()
        for pair, ids in said.items():
            last = [one for one in ids if not any(one in self.past(other, root) for other in ids)]
            bodies = [self.records[one].body for one in last]
            if all(isinstance(body, Allow) and body.approve for body in bodies):
                found.add(pair)
        return frozenset(found)

    def _is_membership(self, id: GroupRecordId, root: GroupRecordId) -> bool:
        if id not in self.records:
            return False
        return id == root or (isinstance(self.records[id].body, Add) and self.is_good(id, root))

    def _device(self, membership: GroupRecordId) -> DeviceId:
        body = self.records[membership].body
        return device_id(body.member) if isinstance(body, Add) else body.by

    def _role(self, membership: GroupRecordId) -> Role:
        body = self.records[membership].body
        return body.role if isinstance(body, Add) else Role.FULL

    def is_good(self, id: GroupRecordId, root: GroupRecordId) -> bool:
        """Its signer, as far as the record's own past says, was a member then who may say this."""
        key = id, root
        if key not in self._good:
            self._good[key] = self._found_good(id, root)
        return self._good[key]

    def _found_good(self, id: GroupRecordId, root: GroupRecordId) -> bool:
        body, past = self.records[id].body, self.past(id, root)
        under = body.under
        if isinstance(body, Found) or under is None or not self._is_membership(under, root):
            return False
        if self._device(under) != body.by or not self._holds(under, past, root) or self._revoked(under, past, root):
            return False
        if isinstance(body, Join):
            return under != root
        return self._role(under) is Role.FULL

    def _revoked(self, membership: GroupRecordId, among: Ids, root: GroupRecordId) -> bool:
        return any(membership in self._ends(one, root) for one in among)

    def _ends(self, id: GroupRecordId, root: GroupRecordId) -> set[GroupRecordId]:
        """The memberships that a good revocation ends."""
        body = self.records[id].body
        if not isinstance(body, Revoke) or not self.is_good(id, root):
            return set()
        return {one for one in body.memberships if self._is_membership(one, root) and self._device(one) == body.device}

    def _holds(self, membership: GroupRecordId, among: Ids, root: GroupRecordId) -> bool:
        """It was given by a good record, its giver's holds, and every good revocation of the giver's has seen it."""
        if membership == root:
            return True
        key = membership, among, root
        if key not in self._held:
            giver = self.records[membership].body.under
            assert giver is not None
            seen = all(membership in self.past(one, root) for one in among if giver in self._ends(one, root))
            self._held[key] = seen and self._is_membership(membership, root) and self._holds(giver, among, root)
        return self._held[key]
