"""The verbs on a person's devices: who is one, what it may do, what it is called, putting one out."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass

from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import short
from hhd.identity.key import Identity
from hhd.node import lagging, naming, registry
from hhd.node.answers.device import Device
from hhd.node.answers.group import Allowed, Gathering, Grouped, Named, Refounded, Unpaired
from hhd.node.answers.syncing import Syncings
from hhd.node.devices import Devices
from hhd.node.group import Membership
from hhd.node.members import members
from hhd.node.misleading import misleads
from hhd.registry.registers import device_subject
from hhd.store.store import Store
from hhd_protocol.group import Device as GroupDevice
from hhd_protocol.group import Membership as Given
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import TITLE_BYTES_MAX
from hhd_protocol.statements import Role

HOST_NAME_CHARS_MAX = 64


@dataclass(frozen=True, kw_only=True)
class GroupVerbs:
    """The devices of `me`, as `store` has them."""

    store: Store
    me: Identity

    def devices(self) -> Gathering:
        """Return who is a member, and who was."""
        group, known = self._group.group, self._known
        if group is None:
            alone = Grouped(
                id=self.me.text,
                name=own_name(self.store, self.me),
                here=True,
                role="full",
                approves=True,
                added_by=None,
                at_ms=0,
                joined=True,
            )
            return Gathering(members=[alone], former=[], fallen=[], out=False)
        now = sorted(group.members.values(), key=lambda one: (one.id != self.me.id, known.named(one.id), one.id))
        return Gathering(
            members=[self._grouped(one, one.live, known) for one in now if one.live is not None],
            former=[known.shown(one.id) for one in group.devices.values() if one.live is None],
            fallen=[known.shown(one) for one in sorted(group.fallen)],
            out=self.me.id not in group.members,
        )

    def lagging(self) -> Syncings:
        """Return what the others lack of what is here, as they last said; nothing of this goes on without a daemon."""
        flows = lagging.without_daemon(self.store, self._known.named)
        return Syncings(paused="", frugal="", holding="", wanted=0, flows=flows, held=(), trouble="")

    def allow(self, name: str, approve: bool) -> Allowed:
        """Let a device approve for this one, or no longer; raises UsageError, RefusedError."""
        device = self._other(name, "approve for itself always")
        if (member := self._known.members.get(device)) is not None and member.now is Role.STORE_ONLY:
            raise RefusedError(
                "That device only stores: it sees no question that it could answer; nothing was changed."
            )
        before = self._group.may_approve(device)
        self._group.allow(device, approve, now_ms())
        return Allowed(device=self._known.shown(device), before=before, after=approve)

    def rename_device(self, name: str, title: str) -> Named:
        """Call a device something else, on all devices; raises UsageError."""
        device = self._any(name)
        if misleads(title, self._known.members):
            raise UsageError(
                f"No device can be called '{short(title, naming.SHOWN_CHARS)}': that means this device, or is the id "
                "of one; nothing was changed."
            )
        told = registry.opened(self.store).name_device(device, title)
        sentences = [
            f"Two devices gave a different {one.what} without knowing of each other; say it again."
            for one in registry.opened(self.store).questions(device_subject(device))
            if one.what != "same name"  # Of all that are members, also those that were never renamed: below.
        ]
        members_now = self._group.members()
        if any(naming.same(called, title) for one, called in self._known.all() if one != device and one in members_now):
            shown = short(title, naming.SHOWN_CHARS)
            sentences.append(
                f"Two of your devices are called '{shown}' now: go by their ids, or give one of them another name."
            )
        return Named(device=self._known.shown(device), before=told.before, questions=tuple(sentences))

    def meant(self, name: str) -> Device:
        """Return the member that `name` means; raises UsageError, RefusedError."""
        return self._known.shown(self._any(name))

    def unpair(self, name: str) -> Unpaired:
        """Put a device out; raises UsageError, RefusedError."""
        device = self._any(name)
        known = self._known
        done = self._group.revoke(device, now_ms())
        return Unpaired(
            device=known.shown(device),
            sessions=[session.hex() for session in done.owned],
            introduced=[known.shown(one.id) for one in done.introduced],
        )

    def refound(self) -> Refounded:
        """Begin the group anew, of this device alone; raises RefusedError."""
        known, group = self._known, self._group.group
        others = [] if group is None else [one for one in group.members if one != self.me.id]
        self._group.refound(own_name(self.store, self.me), now_ms())
        return Refounded(device=known.shown(self.me.id), left=[known.shown(one) for one in others])

    @property
    def _group(self) -> Membership:
        return Membership(self.store, self.me)

    @property
    def _known(self) -> Devices:
        names, _ = registry.device_names(self.store.shared)
        return Devices(me=self.me.id, members=members(self.store, self.me), names=names)

    def _any(self, name: str) -> DeviceId:
        """The member that `name` means; who was put out is not looked for where a member is meant."""
        known = self._known
        now = self._group.members()
        found = [(device, title) for device, title in known.all() if device in now or device == self.me.id]
        return naming.device(found, name)

    def _other(self, name: str, what: str) -> DeviceId:
        device = self._any(name)
        if device == self.me.id:
            raise UsageError(f"That is this very device, whose person can {what}; nothing was changed.")
        return device

    def _grouped(self, one: GroupDevice, live: Given, known: Devices) -> Grouped:
        return Grouped(
            id=known.shown(one.id).id,
            name=known.named(one.id),
            here=one.id == self.me.id,
            role=live.role.value,
            approves=self._group.may_approve(one.id),
            added_by=None if live.by == one.id else known.shown(live.by),
            at_ms=live.at_ms,
            joined=live.joined,
        )


def own_name(store: Store, me: Identity) -> str:
    """Return what this device is called: what its person gave it, else the name of the machine."""
    given, _ = registry.device_names(store.shared)
    known = Devices(me=me.id, members=members(store, me), names=given).named(me.id)
    return known or host_name()


def host_name() -> str:
    """Return the name of the machine, as far as it can be a device's name."""
    name = platform.node().partition(".")[0][:HOST_NAME_CHARS_MAX].strip()
    sound = name and len(name.encode("utf-8", "replace")) <= TITLE_BYTES_MAX
    return name.encode("utf-8", "replace").decode() if sound and not misleads(name) else "device"


def now_ms() -> int:
    """The date, which is shown and decides nothing."""
    return time.time_ns() // 1_000_000
