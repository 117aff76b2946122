"""Which records of one group count: who was a member when, by what each record's signer knew (`group.md`)."""

from __future__ import annotations

from hhd_protocol import crypto
from hhd_protocol.group.causes import Causes, named_by
from hhd_protocol.group.records import Add, Allow, Found, GroupRecord, Join, Revoke
from hhd_protocol.ids import DeviceId, GroupRecordId
from hhd_protocol.limits import GROUP_DEPTH_MAX
from hhd_protocol.statements import Role


class Judged:
    """The records that count under one root; a set of them is an integer, bit by place in the causal order.

    A record that is not good is nothing: it may be here or not, and what it names is not in the past of what names it.
    Each record is judged by its own past alone, so that nothing that comes later, or is said elsewhere at the same
    time, changes whether a revocation counts. What can fall later is a membership: by being revoked, or because a
    revocation of who gave it had not seen it.
    """

    def __init__(self, causes: Causes, root: GroupRecordId) -> None:
        self._causes, self.root = causes, root
        self.memberships: dict[GroupRecordId, GroupRecord] = {}
        """Every one that was given by who could, in causal order."""
        self.revokes: list[GroupRecord] = []
        self.joins: list[GroupRecord] = []
        self.allows: list[GroupRecord] = []
        self._depths: dict[GroupRecordId, int] = {}
        self._given: dict[GroupRecordId, list[GroupRecordId]] = {}
        self._ended: dict[GroupRecordId, int] = {}
        self._against: dict[GroupRecordId, int] = {}
        self.pasts: list[int] = []
        """Of each record, all good ones that it, directly or through good ones, names."""
        self.all = 0
        """The good ones."""
        for place, record in enumerate(causes.order):
            self.pasts.append(self._past(record))
            if record.id == root and isinstance(record.body, Found):
                self.memberships[root], self._depths[root] = record, 0
                self.all |= 1 << place
            elif self._may(record, self.pasts[place]):
                self.all |= 1 << place
                self._take(record, place)

    @property
    def good(self) -> list[GroupRecord]:
        """The good ones, in causal order."""
        return [record for place, record in enumerate(self._causes.order) if self.all >> place & 1]

    def past(self, record: GroupRecord) -> int:
        """All good records that `record`, directly or through good ones, names."""
        return self.pasts[self._causes.place[record.id]]

    def is_in(self, record: GroupRecord, past: int) -> bool:
        """Whether `record` is in a set."""
        return bool(past >> self._causes.place[record.id] & 1)

    def device(self, membership: GroupRecordId) -> DeviceId:
        """Return the device of one of `memberships`."""
        return crypto.device_id(self.key(membership))

    def key(self, membership: GroupRecordId) -> bytes:
        """Return the public key of the device of one of `memberships`."""
        body = self.memberships[membership].body
        return body.member if isinstance(body, Add) else body.public

    def role(self, membership: GroupRecordId) -> Role:
        """Return the role of one of `memberships`."""
        body = self.memberships[membership].body
        return body.role if isinstance(body, Add) else Role.FULL

    def holds(self, membership: GroupRecordId, among: int | None = None) -> bool:
        """Whether it was given by who could, and no revocation of a giver says otherwise; it may be revoked itself."""
        among = self.all if among is None else among
        at: GroupRecordId | None = membership
        while at is not None and at != self.root:  # At most GROUP_DEPTH_MAX times.
            if at not in self.memberships or self._against.get(at, 0) & among:
                return False
            at = self.memberships[at].body.under
        return at in self.memberships

    def ended(self, membership: GroupRecordId, among: int | None = None) -> bool:
        """Whether it was revoked."""
        return bool(self._ended.get(membership, 0) & (self.all if among is None else among))

    def _past(self, record: GroupRecord) -> int:
        past = 0
        for named in named_by(record):
            place = self._causes.place.get(named)
            if place is not None and self.all >> place & 1:
                past |= self.pasts[place] | 1 << place
        return past

    def _may(self, record: GroupRecord, past: int) -> bool:
        """Whether its signer, as far as it knew, was a member who may say this."""
        body = record.body
        if isinstance(body, Found) or body.under is None or body.under not in self.memberships:
            return False
        if self.key(body.under) != body.public or not self.holds(body.under, past) or self.ended(body.under, past):
            return False
        if isinstance(body, Join):
            return body.under != self.root
        if self.role(body.under) is not Role.FULL:
            return False
        return not isinstance(body, Add) or self._depths[body.under] < GROUP_DEPTH_MAX

    def _take(self, record: GroupRecord, place: int) -> None:
        body = record.body
        match body:
            case Add():
                assert body.under is not None
                self.memberships[record.id] = record
                self._depths[record.id] = self._depths[body.under] + 1
                self._given.setdefault(body.under, []).append(record.id)
                # Every revocation that was judged before it and ends its giver has not seen it.
                self._against[record.id] = self._ended.get(body.under, 0)
            case Revoke():
                self.revokes.append(record)
                for membership in body.memberships:
                    self._end(membership, body.device, place)
            case Join():
                self.joins.append(record)
            case Allow():
                self.allows.append(record)
            case Found():
                raise AssertionError("a group has one root")

    def _end(self, membership: GroupRecordId, device: DeviceId, place: int) -> None:
        if membership not in self.memberships or self.device(membership) != device:
            return
        past = self.pasts[place]
        # A second revocation that has seen the first has seen all that the first had: it seals nothing more.
        news = not self._ended.get(membership, 0) & past
        self._ended[membership] = self._ended.get(membership, 0) | 1 << place
        for given in self._given.get(membership, ()) if news else ():
            if not past >> self._causes.place[given] & 1:
                self._against[given] |= 1 << place
