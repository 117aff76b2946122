"""The group as the daemon has it in memory: asked at every handshake, and never read from the store for that.

What stands behind it blocks, so it is read and changed in a thread of its own: a revocation does not wait behind an
import. Whoever changes the group elsewhere in this process says so with `refresh`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from hhd.identity.key import Identity
from hhd.node.lanes import Lane
from hhd.node.members import Member
from hhd_protocol.ids import DeviceId
from hhd_protocol.statements import Role


class Standing(NamedTuple):
    """What the group is at one moment: who is a member now, and every record that says so."""

    members: Mapping[DeviceId, Member]
    records: tuple[bytes, ...]


class Source(Protocol):
    """The group in the store; each call blocks, and opens the store anew."""

    def read(self) -> Standing:
        """Return what is so."""

    def take(self, records: Sequence[bytes]) -> Standing:
        """Keep what a member sent, durably, and return what is so now; raises FormatError where it breaks the rules."""


class Roll:
    """Who is a member, now. Used by the loop's thread alone."""

    def __init__(self, me: Identity, source: Source) -> None:
        self.me = me
        self._source, self._lane = source, Lane("group")
        self._standing = Standing({}, ())
        self._heard: list[Callable[[], None]] = []

    @property
    def members(self) -> Mapping[DeviceId, Member]:
        """Every member, this device included unless it was put out."""
        return self._standing.members

    @property
    def others(self) -> Mapping[DeviceId, Member]:
        """The other members; none once this device was put out."""
        if self.me.id not in self.members:
            return {}
        return {device: member for device, member in self.members.items() if device != self.me.id}

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records of the group."""
        return self._standing.records

    def trusted(self, device: DeviceId) -> bool:
        """Whether there may be a link to `device`."""
        return device in self.others

    def is_full(self, device: DeviceId) -> bool:
        """Whether `device` is a member that may read everything."""
        member = self.members.get(device)
        return member is not None and member.full

    def only_stores(self, device: DeviceId) -> bool:
        """Whether `device` is a member that keeps sealed bytes, and reads nothing."""
        member = self.members.get(device)
        return member is not None and member.now is Role.STORE_ONLY

    def on_change(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Call `heard` after each change, in the loop's thread, until what is returned is called."""
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    async def refresh(self) -> None:
        """Read the group again: it was changed, or may have been."""
        self._now(await self._lane.do(self._source.read))

    async def take(self, records: Sequence[bytes]) -> None:
        """Take in what a member sent; raises FormatError, which costs it the link."""
        self._now(await self._lane.do(lambda: self._source.take(records)))

    def close(self) -> None:
        """Wait for what is being done."""
        self._lane.close()

    def _now(self, standing: Standing) -> None:
        if standing != self._standing:
            self._standing = standing
            for heard in list(self._heard):
                heard()
