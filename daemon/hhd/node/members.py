"""The devices of this person's group, as far as they are known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hhd.identity.key import Identity
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId
from hhd_protocol.statements import Role

if TYPE_CHECKING:  # A device that was never paired needs none of it.
    from hhd_protocol.group import Group


_FOUND: WeakKeyDictionary[Store, tuple[bytes, int, Group]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Member:
    """A device of the group: its role, its Ed25519 public key, and the name that a person gave it ("": none).

    `role`: what its statements are judged by; once full, always. `live`: whether it is a member now; what it said while
    it was one still counts afterwards. `lowered`: the lesser role that it has now.
    """

    role: Role
    public: bytes
    name: str = ""
    live: bool = True
    lowered: Role | None = None

    @property
    def now(self) -> Role | None:
        """What it may now, None if nothing any more: what is given to a device is decided by this."""
        return (self.lowered or self.role) if self.live else None

    @property
    def full(self) -> bool:
        """Whether it is a full member now."""
        return self.now is Role.FULL


def members(store: Store, identity: Identity) -> Mapping[DeviceId, Member]:
    """Return every device whose statements count here, those that were revoked included."""
    alone = {identity.id: Member(role=Role.FULL, public=identity.public)}
    group = group_of(store)
    if group is None:
        return alone
    known = {
        device.id: Member(
            role=device.role,
            public=device.public,
            name=device.name,
            live=device.live is not None,
            lowered=device.live.role if device.live is not None and device.live.role is not device.role else None,
        )
        for device in group.devices.values()
    }
    return known if identity.id in known else alone | known


def note_others(store: Store, identity: Identity) -> None:
    """Say for lists which other devices are to have sessions; in the caller's transaction if there is one."""
    known = members(store, identity)
    mine = known.get(identity.id)
    others = {
        id: one.name for id, one in known.items() if id != identity.id and one.now in (Role.FULL, Role.STORE_ONLY)
    }
    store.freshness.note_devices(others if mine is not None and mine.live else {})


def group_of(store: Store) -> Group | None:
    """Return what the records of the group here mean, None while this device is in none.

    It is found out once for each set of records. Raises DamagedStoreError.
    """
    root = store.group.root()
    if root is None:
        return None
    count = store.group.count()
    kept = _FOUND.get(store)
    if kept is not None and kept[:2] == (root, count):
        return kept[2]
    from hhd_protocol.group import decode, resolve

    with store.snapshot():
        records = [decode(raw, checked=True) for raw in store.group.all()]
    group = resolve(records, root=root)
    _FOUND[store] = root, count, group
    return group
