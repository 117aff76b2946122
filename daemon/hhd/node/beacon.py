"""Discovery joined with the group: what is announced to its members, and which of them was heard.

Keys are shared with each member by computing, so announcing to a device that joined a moment ago needs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hhd.node.dialling import Place
from hhd.node.roll import Roll
from hhd_protocol import announcement
from hhd_protocol.announcement import Announcement
from hhd_protocol.crypto import SealError
from hhd_protocol.ids import DeviceId

if TYPE_CHECKING:
    from hhd.discovery.discovery import Discovery
    from hhd.discovery.interfaces import Interface

SHOWING_MAX = 16
"""Devices nearby that have a code open: more than a room full of people who pair at this moment."""


class Told(NamedTuple):
    """Who is told: where a member is, that a name is gone, that this device is on other networks."""

    heard: Callable[[DeviceId, bytes, list[Place]], None]
    gone: Callable[[bytes], None]
    moved: Callable[[], None]


class Beacon:
    """Announces this device to the members of `roll`, and says where they are."""

    def __init__(self, roll: Roll, told: Told, *, random: Callable[[int], bytes]) -> None:
        self._roll, self._told, self._random = roll, told, random
        self._keys: dict[DeviceId, bytes] = {}
        self._discovery: Discovery | None = None
        self.pairing = False
        """Whether a code is open here, which others in reach may know."""
        self.showing: dict[bytes, list[Place]] = {}
        """Where others have a code open, by the names they announce."""

    async def run(self, port: int, *, multicast: bool) -> None:
        """Announce `port` and listen, until cancelled; this imports what it takes."""
        from hhd.discovery.discovery import Discovery, Ears

        ears = Ears(heard=self._heard, gone=self._gone, moved=self._moved)
        self._discovery = Discovery(said=self._said, ears=ears, random=self._random, multicast=multicast)
        self._discovery.port = port
        self._renew_keys()
        try:
            await self._discovery.run()
        finally:
            self._discovery = None
            self.showing.clear()

    @property
    def trouble(self) -> str:
        """Why nobody is found by multicast; "": nothing is in the way."""
        return "" if self._discovery is None else self._discovery.trouble

    def group_changed(self) -> None:
        """There are other members: others are announced to, and others recognised."""
        fresh = self._renew_keys()
        if self._discovery is not None:
            self._discovery.say_again()
            if fresh:
                self._discovery.begin_anew()  # What a new member said before was not understood.

    def pairing_changed(self, pairing: bool) -> None:
        """A code is open here from now on, or none any more."""
        if pairing != self.pairing:
            self.pairing = pairing
            if self._discovery is not None:
                self._discovery.say_again()

    def look_again(self) -> None:
        """The device woke, or somebody is missing."""
        if self._discovery is not None:
            self._discovery.begin_anew()

    def _renew_keys(self) -> bool:
        others = self._roll.others
        for device in self._keys.keys() - others.keys():
            del self._keys[device]
        fresh = others.keys() - self._keys.keys()
        for device in fresh:
            try:
                self._keys[device] = announcement.pair_key(self._roll.me.seed, others[device].public)
            except SealError:
                continue  # A browser's key is of another kind: it is not found on a network.
        return bool(fresh)

    def _said(self, nonce: bytes, filler: bytes) -> Announcement | None:
        if not self._keys and not self.pairing:
            return None
        keys = [self._keys[device] for device in sorted(self._keys)]
        return announcement.announcement(self._roll.me.id, keys, nonce, filler, pairing=self.pairing)

    def _heard(self, said: Announcement, port: int, addresses: tuple[str, ...]) -> None:
        places = [Place(address, port) for address in addresses]
        self.showing.pop(said.nonce, None)
        if said.pairing:
            # One device under its last name, of which no farewell was heard. Who adds a place of its own to those of
            # another device stands beside that: the person is told that two show a code.
            for nonce in [nonce for nonce, there in self.showing.items() if set(places) <= set(there)]:
                del self.showing[nonce]
            if len(self.showing) < SHOWING_MAX:
                self.showing[said.nonce] = places
        device = announcement.announcer(said, self._keys)
        if device is not None:
            self._told.heard(device, said.nonce, places)

    def _gone(self, nonce: bytes) -> None:
        self.showing.pop(nonce, None)
        self._told.gone(nonce)

    def _moved(self, found: tuple[Interface, ...]) -> None:
        self._told.moved()
