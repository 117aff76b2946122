"""The group of this device: what its records mean, what this device adds to them, what it takes from others.

What is signed or taken is durable when a method returns, and heard of by the callbacks afterwards. A device that was
never paired has no records: it is alone, and full. It founds its group when it first adds another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node.group_taken import decoded, worth
from hhd.node.lineages import lineage_of
from hhd.node.members import Member, group_of, members, note_others
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol.crypto import device_id
from hhd_protocol.errors import FormatError
from hhd_protocol.group import (
    Add,
    Allow,
    AnyBody,
    Device,
    Found,
    Group,
    GroupRecord,
    Join,
    Revoke,
    decode,
    resolve,
    sign,
)
from hhd_protocol.ids import DeviceId, GroupRecordId, SessionId, StatementId
from hhd_protocol.limits import (
    GROUP_CUTOFF_ENDS_MAX,
    GROUP_CUTOFFS_MAX,
    GROUP_DEVICES_MAX,
    GROUP_MEMBERSHIPS_MAX,
)
from hhd_protocol.statements import Role

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Revoked:
    """What a revocation did: `owned`: sessions that the device had; `introduced`: members that it had added."""

    device: Device
    owned: tuple[SessionId, ...]
    introduced: tuple[Device, ...]


class Membership:
    """The group as one store has it; used by one thread at a time, like the store."""

    def __init__(self, store: Store, me: Identity) -> None:
        self._store, self._me = store, me
        self._heard: list[Callable[[], None]] = []

    def on_change(self, heard: Callable[[], None]) -> None:
        """Call `heard` after each change that is made through this object."""
        self._heard.append(heard)

    # What is so

    @property
    def group(self) -> Group | None:
        """What the records mean; None while this device is alone and founded nothing."""
        return group_of(self._store)

    def members(self) -> Mapping[DeviceId, Member]:
        """Return the devices that are members now; this one is not among them once it was revoked."""
        known = members(self._store, self._me)
        if (group := self.group) is None:
            return known
        return {id: Member(role=_role(one), public=one.public, name=one.name) for id, one in group.members.items()}

    def trusted(self, device: DeviceId) -> bool:
        """Whether `device` is a member now, and so is this one: nothing is said to anybody by who was put out."""
        now = self.members()
        return device in now and self._me.id in now

    def may_approve(self, device: DeviceId) -> bool:
        """Whether this device's person lets `device` approve for it; always for this one."""
        group = self.group
        return device == self._me.id or (group is not None and (self._me.id, device) in group.approvals)

    def records(self) -> list[bytes]:
        """Return every record, for another member: what is named before what names it is not promised."""
        return self._store.group.all()

    # What this device does

    def found(self, name: str, now_ms: int) -> Group:
        """Begin a group, unless this device is in one; `name` is what others call it."""
        with self._store.transaction():
            group = self.group
            if group is None:
                record = sign(Found(public=self._me.public, name=name, at_ms=now_ms), self._me.seed)
                group = self._keep([record], record.id)
        return group

    def add(self, public: bytes, name: str, role: Role, now_ms: int) -> GroupRecordId:
        """Make the device of the key `public` a member; one that is a member already becomes one anew.

        Raises RefusedError where this device may not, or where there are too many.
        """
        with self._store.transaction():
            group = self._insist_on_full("add a device")
            device = device_id(public)
            if device == self._me.id:
                raise RefusedError("This is the very device that you are at; nothing was changed.")
            if device not in group.devices and len(group.given | {device}) > GROUP_DEVICES_MAX:
                raise RefusedError(
                    f"This group has had {GROUP_DEVICES_MAX} devices, and takes no more; nothing was changed. "
                    "Begin it anew with `hhd devices refound`."
                )
            record = self._sign(Add(**self._head(group, now_ms), member=public, name=name, role=role))
            self._keep([record], group.root)
        self._tell()
        return record.id

    def revoke(self, device: DeviceId, now_ms: int) -> Revoked:
        """Put `device` out: what it signed until now, as far as it is here, counts on; nothing later does.

        Raises RefusedError where this device may not, or `device` is no member.
        """
        with self._store.transaction():
            group = self._insist_on_full("put a device out")
            one = group.devices.get(device)
            if one is None or one.live is None:
                raise RefusedError("That device is no member of this group; nothing was changed.")
            if device == self._me.id:
                raise RefusedError(
                    "A device does not put itself out; nothing was changed. Unpair it on another device, or leave the "
                    "group with `hhd devices refound`."
                )
            revoked = self._revoked(group, one)
            held = tuple(sorted(given.id for given in one.memberships if not given.ended))
            self._cut(group, one.id, held, now_ms)
        self._tell()
        return revoked

    def allow(self, device: DeviceId, approve: bool, now_ms: int) -> None:
        """Let `device` approve for this one, or no longer; raises RefusedError if it is no member."""
        with self._store.transaction():
            group = self._insist_on_full("give that right")
            one = group.devices.get(device)
            if one is None or one.live is None or device == self._me.id:
                raise RefusedError("That is no other device of this group; nothing was changed.")
            if ((self._me.id, device) in group.approvals) is approve:
                return
            body = Allow(**self._head(group, now_ms), membership=one.live.id, approve=approve)
            self._keep([self._sign(body)], group.root)
        self._tell()

    def refound(self, name: str, now_ms: int) -> Group:
        """Begin a group anew, of this device alone: all others of the one it was in are put out of the new one."""
        with self._store.transaction():
            before = self.group
            if before is None:
                raise RefusedError("This device is in no group; nothing was changed. Pair it with `hhd pair`.")
            body = Found(public=self._me.public, seen=before.ends, name=name, former=before.root, at_ms=now_ms)
            record = self._sign(body)
            group = self._keep([record], record.id)
            for one in before.devices.values():
                held = tuple(sorted(given.id for given in one.memberships if not given.ended))
                if one.id != self._me.id and held:
                    group = self._cut(group, one.id, held, now_ms)
        self._tell()
        return group

    # What comes from others

    def take(self, records: Iterable[bytes]) -> bool:
        """Keep what another member sends, as far as it may matter; return whether anything was new.

        Raises FormatError where it breaks the rules, with nothing kept: that costs the link.
        """
        if self.group is None:
            return False
        with self._store.transaction():
            here = self._here()
            fresh = decoded(records, here)
            root = self._root()
            kept = worth(here, fresh, root)
            if kept:
                self._keep(kept, root)
        if kept:
            self._tell()
        return bool(kept)

    def join(self, records: Iterable[bytes], root: GroupRecordId, now_ms: int, *, by: DeviceId | None = None) -> Group:
        """Become a member of the group that `root` founded, into which its `records` take this device.

        `by`: the device that takes it in, which has to be a member itself by all that is known here.
        Raises RefusedError where this device is in a group with others or may not take the role, FormatError where
        the records do not make it a member; nothing is changed then.
        """
        with self._store.transaction():
            self._insist_on_free(root)
            here = self._here()
            given = list(records)
            fresh = decoded(given, here)
            group = resolve([*here.values(), *fresh], root=root)
            mine = group.devices.get(self._me.id)
            if mine is None or mine.live is None:
                self._insist_on_no_quarrel(given, root)
                raise FormatError("the records of the group do not make this device a member")
            if by is not None and by not in group.members:
                raise RefusedError(_PUT_OUT)
            if mine.live.role is not Role.FULL:
                self._insist_on_no_sessions(mine.live.role)
            former = self._store.group.root()
            fresh = worth(here, fresh, root)
            group = self._keep(fresh, root)
            if not mine.live.joined:
                body = Join(**self._head(group, now_ms), former=None if former == root else former)
                group = self._keep([self._sign(body)], root)
        self._tell()
        return group

    # What stands behind them

    def _root(self) -> GroupRecordId:
        root = self._store.group.root()
        assert root is not None
        return root

    def _here(self) -> dict[GroupRecordId, GroupRecord]:
        records = (decode(raw, checked=True) for raw in self._store.group.all())
        return {record.id: record for record in records}

    def _keep(self, records: Iterable[GroupRecord], root: GroupRecordId) -> Group:
        here = self._here()
        fresh = [record for record in records if record.id not in here]
        group = resolve([*here.values(), *fresh], root=root)
        self._store.group.append((record.raw for record in fresh), root=root, era=group.era)
        note_others(self._store, self._me)
        return group

    def _tell(self) -> None:
        for heard in self._heard:
            heard()

    def _sign(self, body: AnyBody) -> GroupRecord:
        return sign(body, self._me.seed)

    def _head(self, group: Group, now_ms: int) -> _Head:
        mine = group.devices[self._me.id].live
        assert mine is not None
        return {"public": self._me.public, "seen": group.ends, "under": mine.id, "at_ms": now_ms}

    def _insist_on_full(self, act: str) -> Group:
        group = self.group
        if group is None:
            raise RefusedError("This device is in no group yet; nothing was changed. Pair it with `hhd pair`.")
        if self._me.id not in group.full:
            mine = group.devices.get(self._me.id)
            out = mine is None or mine.live is None
            why = "was put out of its group" if out else f"is {_role_text(mine)} in its group"
            way = (
                "Pair it again with `hhd pair`, or begin a group with `hhd devices refound`."
                if out
                else ("Do it on a full member.")
            )
            raise RefusedError(f"This device {why}, so it cannot {act}; nothing was changed. {way}")
        return group

    def _insist_on_free(self, root: GroupRecordId) -> None:
        group = self.group
        if group is None or group.root == root:
            return
        others = [one for one in group.members.values() if one.id != self._me.id]
        if others and self._me.id in group.members:
            raise RefusedError(
                f"This device is in a group with {len(others)} other{'s' if len(others) > 1 else ''}; nothing was "
                "changed. Leave it first with `hhd devices refound`, or pair the other way round."
            )

    def _insist_on_no_quarrel(self, given: list[bytes], root: GroupRecordId) -> None:
        """Raise RefusedError where it is what this device knows besides that keeps it out."""
        mine = resolve(decoded(given, {}), root=root).devices.get(self._me.id)
        if mine is not None and mine.live is not None:
            raise RefusedError(_PUT_OUT)

    def _insist_on_no_sessions(self, role: Role) -> None:
        if self._store.sessions_count():
            raise RefusedError(
                f"This device has sessions of its own, which it could not go on with as {role.value}; nothing was "
                "changed. Pair it with the role full, or remove them first."
            )

    def _revoked(self, group: Group, one: Device) -> Revoked:
        owned = [session for session in self._signed_in(one.id) if self._view_owner(session) == one.id]
        introduced = tuple(
            other
            for other in group.members.values()
            if other.id != self._me.id and other.live is not None and other.live.by == one.id and other.id != one.id
        )
        return Revoked(device=one, owned=tuple(owned), introduced=introduced)

    def _view_owner(self, session: SessionId) -> DeviceId | None:
        return lineage_of(self._store, session, members(self._store, self._me)).view.owner

    def _cut(self, group: Group, device: DeviceId, held: tuple[GroupRecordId, ...], now_ms: int) -> Group:
        """Revoke memberships of a device, in as many records as these, and its sessions, need."""
        cutoffs = list(self._cutoffs(device))
        for ended in _parts(held, GROUP_MEMBERSHIPS_MAX):
            for part in _parts(cutoffs, GROUP_CUTOFFS_MAX):
                head = self._head(group, now_ms)
                body = Revoke(**head, device=device, memberships=tuple(ended), cutoffs=dict(part))
                group = self._keep([self._sign(body)], group.root)
        return group

    def _cutoffs(self, device: DeviceId) -> Iterator[tuple[SessionId, tuple[StatementId, ...]]]:
        known = members(self._store, self._me)
        for session in self._signed_in(device):
            last = lineage_of(self._store, session, known).known.last_of(device)
            if last:
                yield session, last[:GROUP_CUTOFF_ENDS_MAX]

    def _signed_in(self, device: DeviceId) -> Iterator[SessionId]:
        """The sessions in which something that `device` signed is here."""
        for session in self._store.sessions():
            try:
                if self._store.statements.end(session, device) is not None:
                    yield session
            except (DamagedStoreError, MissingError):
                continue  # `hhd check` names it; a damaged session does not keep a stolen device in.


_PUT_OUT = (
    "This device knows that the one that would take it in was put out of the group; nothing was changed here. Show the "
    "code on this device instead; where that is refused too, run `hhd devices refound` on the other one before."
)


class _Head(TypedDict):
    public: bytes
    seen: tuple[GroupRecordId, ...]
    under: GroupRecordId
    at_ms: int


def _parts(things: Sequence[T], count_max: int) -> Iterator[Sequence[T]]:
    """Cut `things` into parts; one empty part if there are none."""
    for at in range(0, max(len(things), 1), count_max):
        yield things[at : at + count_max]


def _role(device: Device) -> Role:
    assert device.live is not None
    return device.live.role


def _role_text(device: Device | None) -> str:
    return "no member" if device is None or device.live is None else device.live.role.value
