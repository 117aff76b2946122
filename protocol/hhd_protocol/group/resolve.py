"""Who is a member, and what of who was one still counts: the answer to a set of records (`group.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from hhd_protocol import statements
from hhd_protocol.errors import TooLargeError
from hhd_protocol.group.causes import Causes, named_by
from hhd_protocol.group.judging import Judged
from hhd_protocol.group.records import Add, Allow, Found, GroupRecord, Join, Revoke
from hhd_protocol.ids import DeviceId, GroupRecordId, SessionId, StatementId
from hhd_protocol.limits import GROUP_FORMERS_MAX, GROUP_RECORDS_MAX, GROUP_SEEN_MAX
from hhd_protocol.statements import Role

_LEAST_FIRST = (Role.STORE_ONLY, Role.CONTROLLER, Role.FULL)


@dataclass(frozen=True, kw_only=True)
class Membership:
    """One time that a device was made a member; `id` is the record that did it, `by` who signed that.

    `joined`: the device itself said that it took it. `ended`: it was revoked.
    """

    id: GroupRecordId
    by: DeviceId
    role: Role
    name: str
    at_ms: int
    joined: bool
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that is or was a member, with the `memberships` that hold, in causal order.

    `role`: what its statements are judged by; once full, always, as what it said then goes on to count. `revokes`: the
    revocations of it that count. `live`: the membership that it has now, None when it has none.
    """

    id: DeviceId
    public: bytes
    name: str
    role: Role
    memberships: tuple[Membership, ...]
    revokes: tuple[GroupRecord, ...] = field(repr=False)
    live: Membership | None

    @property
    def anew(self) -> tuple[StatementId, ...]:
        """Where chains of statements begin that count in spite of `revokes`: it was added again."""
        if not self.revokes:
            return ()
        held = (one for one in self.memberships if not one.ended and one.role is Role.FULL)
        return tuple(StatementId(one.id) for one in held)


@dataclass(frozen=True, kw_only=True)
class Group:
    """What a set of records means under one root.

    `devices`: every one that is or was a member. `approvals`: (who gave the right, who may approve for it), both
    members now. `ends`: what the next record names as `seen`. `good`: the records that mean something, here or in a
    group that this one goes on from; no other need be kept. `given`: every device that was ever added. `fallen`:
    devices that were added by a device that was revoked by who had not seen them: they are to be added again.
    """

    root: GroupRecordId
    devices: Mapping[DeviceId, Device]
    approvals: frozenset[tuple[DeviceId, DeviceId]]
    ends: tuple[GroupRecordId, ...]
    good: frozenset[GroupRecordId]
    given: frozenset[DeviceId]
    fallen: frozenset[DeviceId]

    @property
    def members(self) -> Mapping[DeviceId, Device]:
        """The members now."""
        return {id: device for id, device in self.devices.items() if device.live is not None}

    @property
    def full(self) -> frozenset[DeviceId]:
        """Those of the members who may add and revoke."""
        return frozenset(id for id, one in self.devices.items() if one.live and one.live.role is Role.FULL)

    def revocations(self, session: SessionId) -> list[statements.Revocation]:
        """Return the revocations as `fencing` takes them, for one session."""
        return [
            statements.Revocation(
                id=StatementId(sha256(record.id + session + (last or b"")).digest()),
                by=record.body.by,
                after=None,
                signature_good=False,
                device=device.id,
                last=last,
                judged=True,
                anew=device.anew,
            )
            for device in self.devices.values()
            for record in device.revokes
            for last in _cutoffs(record, session)
        ]

    @property
    def era(self) -> bytes | None:
        """What all revocations that count come to, 32 bytes; None before the first. Keys are renewed in each era."""
        ids = sorted({record.id for device in self.devices.values() for record in device.revokes})
        return sha256(b"hhd era\0" + b"".join(ids)).digest() if ids else None


def resolve(records: Iterable[GroupRecord], *, root: GroupRecordId) -> Group:
    """Say what `records` mean to who follows `root`, a record of kind found; they may come in any order, and twice.

    Raises TooLargeError past GROUP_RECORDS_MAX.
    """
    here = list(records)
    if len(here) > GROUP_RECORDS_MAX:
        raise TooLargeError(f"{len(here)} records of a group pass the bound of {GROUP_RECORDS_MAX}")
    causes = Causes(here)
    judged = Judged(causes, root)
    formers = _formers(causes, judged)
    devices = _devices(judged, formers)
    given = {judged.device(one) for one in judged.memberships}
    groups = [judged, *formers]
    return Group(
        root=root,
        devices=devices,
        approvals=_approvals(judged, devices),
        ends=_ends(judged.good),
        good=frozenset(record.id for group in groups for record in group.good),
        given=frozenset(group.device(one) for group in groups for one in group.memberships),
        fallen=frozenset(given - devices.keys()),
    )


def _devices(judged: Judged, formers: Sequence[Judged]) -> dict[DeviceId, Device]:
    joined = {record.body.under for record in judged.joins}
    devices: dict[DeviceId, Device] = {}
    for device, given in _by_device(judged).items():
        memberships = tuple(_membership(judged, one, joined) for one in given)
        held = [one for one in memberships if not one.ended]
        live = min(held, key=lambda one: (_LEAST_FIRST.index(one.role), one.id), default=None)
        devices[device] = Device(
            id=device,
            public=judged.key(given[0]),
            name=(live or memberships[-1]).name,
            role=max((one.role for one in memberships), key=_LEAST_FIRST.index),
            memberships=memberships,
            revokes=_revokes(device, given, [judged]),
            live=live,
        )
    for former in formers:
        for device, given in _by_device(former).items():
            revokes = _revokes(device, given, [judged, *formers])
            if device not in devices and revokes:
                memberships = tuple(_membership(former, one, set()) for one in given)
                devices[device] = Device(
                    id=device,
                    public=former.key(given[0]),
                    name=memberships[-1].name,
                    role=max((one.role for one in memberships), key=_LEAST_FIRST.index),
                    memberships=(),
                    revokes=revokes,
                    live=None,
                )
    return devices


def _by_device(judged: Judged) -> dict[DeviceId, list[GroupRecordId]]:
    found: dict[DeviceId, list[GroupRecordId]] = {}
    for one in judged.memberships:
        if judged.holds(one):
            found.setdefault(judged.device(one), []).append(one)
    return found


def _membership(judged: Judged, id: GroupRecordId, joined: set[GroupRecordId | None]) -> Membership:
    body = judged.memberships[id].body
    assert isinstance(body, Add | Found)
    return Membership(
        id=id,
        by=body.by,
        role=judged.role(id),
        name=body.name,
        at_ms=body.at_ms,
        joined=id == judged.root or id in joined,
        ended=judged.ended(id),
    )


def _revokes(device: DeviceId, given: Sequence[GroupRecordId], groups: Sequence[Judged]) -> tuple[GroupRecord, ...]:
    """The revocations that count of these memberships of a device, each once."""
    found = {
        record.id: record
        for group in groups
        for record in group.revokes
        if isinstance(record.body, Revoke) and record.body.device == device and not _apart(record.body, given)
    }
    return tuple(found[id] for id in sorted(found))


def _apart(body: Revoke, given: Sequence[GroupRecordId]) -> bool:
    return set(body.memberships).isdisjoint(given)


def _formers(causes: Causes, judged: Judged) -> list[Judged]:
    """The groups that this one goes on from, for whom they revoked: the root's former one, and those of who joined."""
    found: dict[GroupRecordId, Judged] = {}
    waiting = [judged] if judged.root in judged.memberships else []
    while waiting:
        for id in _named_formers(waiting.pop(0)):
            record = causes.get(id)
            new = id not in found and id != judged.root and len(found) < GROUP_FORMERS_MAX
            if new and record is not None and isinstance(record.body, Found):
                found[id] = Judged(causes, id)
                waiting.append(found[id])
    return list(found.values())


def _named_formers(group: Judged) -> list[GroupRecordId]:
    root = group.memberships[group.root].body
    assert isinstance(root, Found)
    named = [] if root.former is None else [root.former]
    for body in (record.body for record in sorted(group.joins, key=lambda record: record.id)):
        assert isinstance(body, Join) and body.under is not None
        if body.former is not None and group.role(body.under) is Role.FULL and group.holds(body.under):
            named.append(body.former)
    return named


def _approvals(judged: Judged, devices: Mapping[DeviceId, Device]) -> frozenset[tuple[DeviceId, DeviceId]]:
    """Who may approve for whom: the last word of each device; where it said two things at once, no."""
    said: dict[tuple[DeviceId, DeviceId], list[GroupRecord]] = {}
    for record in judged.allows:
        body = record.body
        if isinstance(body, Allow) and body.membership in judged.memberships:
            giver, to = body.by, judged.device(body.membership)
            live = devices[giver].live if giver in devices else None
            target = devices[to].live if to in devices else None
            if live is not None and live.id == body.under and target is not None and target.id == body.membership:
                said.setdefault((giver, to), []).append(record)
    return frozenset(pair for pair, records in said.items() if _last_words(records, judged) == {True})


def _last_words(records: Sequence[GroupRecord], judged: Judged) -> set[bool]:
    before = 0
    for record in records:
        before |= judged.past(record)
    last = [record for record in records if not judged.is_in(record, before)]
    return {record.body.approve for record in last if isinstance(record.body, Allow)}


def _ends(good: Sequence[GroupRecord]) -> tuple[GroupRecordId, ...]:
    named = {id for record in good for id in named_by(record)}
    ends = [record for record in good if record.id not in named]
    if len(ends) > GROUP_SEEN_MAX:  # Only where somebody misbehaves: then what puts out is named before all else.
        ends.sort(key=lambda record: (not isinstance(record.body, Revoke), record.id))
    return tuple(sorted(record.id for record in ends[:GROUP_SEEN_MAX]))


def _cutoffs(record: GroupRecord, session: SessionId) -> tuple[StatementId | None, ...]:
    body = record.body
    assert isinstance(body, Revoke)
    return body.cutoffs.get(session) or (None,)
