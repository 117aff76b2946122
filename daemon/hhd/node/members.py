"""The devices of this person's group, as far as they are known here: for now, this device alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hhd.identity.key import Identity
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId
from hhd_protocol.statements import Role


@dataclass(frozen=True, kw_only=True)
class Member:
    """A device of the group: its role, its Ed25519 public key, and the name that a person gave it ("": none)."""

    role: Role
    public: bytes
    name: str = ""


def members(store: Store, identity: Identity) -> Mapping[DeviceId, Member]:
    """Return every device whose statements count here."""
    return {identity.id: Member(role=Role.FULL, public=identity.public)}
