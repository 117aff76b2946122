"""Devices as a person sees them: what each is called, and which one is this."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hhd.node.answers.device import Device
from hhd.node.members import Member
from hhd.node.misleading import misleads
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
        """What a person calls a device, "" if nothing, or nothing that means it (`hhd.node.misleading`)."""
        member = self.members.get(device)
        for name in (self.names.get(device[:HALF_BYTES]), None if member is None else member.name):
            if name and not misleads(name, self.members):
                return name
        return ""

    def word(self, device: DeviceId) -> str:
        """What a person can type for it and no other: its name where that is one plain word, else its id."""
        name = self.named(device)
        alike = sum(title.casefold() == name.casefold() for _, title in self.all())
        return name if alike == 1 and re.fullmatch(r"\w[\w.-]*", name) else device_text(device)

    def shown(self, device: DeviceId) -> Device:
        """A device as the verbs answer it."""
        return Device(id=device_text(device), name=self.named(device), here=device == self.me)

    def all(self) -> list[tuple[DeviceId, str]]:
        """Every member with its name."""
        return [(device, self.named(device)) for device in self.members]
