"""Devices as a person sees them: what each is called, and which one is this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hhd.node.answers.device import Device
from hhd.node.members import Member
from hhd.store.catalogue import HALF_BYTES
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The devices known here; `names`, by the first half of their ids, are those that a person gave.

    They go before the name that a member has of its own.
    """

    me: DeviceId
    members: Mapping[DeviceId, Member]
    names: Mapping[bytes, str]

    def named(self, device: DeviceId) -> str:
        """What a person calls a device, "" if nothing."""
        member = self.members.get(device)
        return self.names.get(device[:HALF_BYTES]) or (member.name if member is not None else "")

    def shown(self, device: DeviceId) -> Device:
        """A device as the verbs answer it."""
        return Device(id=device_text(device), name=self.named(device), here=device == self.me)

    def all(self) -> list[tuple[DeviceId, str]]:
        """Every member with its name."""
        return [(device, self.named(device)) for device in self.members]
