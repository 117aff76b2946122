"""What peers keep in the store: the group's records, and the address book. Each call opens the store, and blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from hhd.identity.key import Identity
from hhd.node import address_book, registry
from hhd.node.address_book import AddressBook
from hhd.node.devices import Devices
from hhd.node.group import Membership
from hhd.node.members import members
from hhd.node.roll import Standing
from hhd.store.store import Store
from hhd_protocol.ids import DeviceId

Opened = Callable[[], AbstractContextManager[Store]]


class KeptGroup:
    """As `hhd.node.roll.Source`."""

    def __init__(self, me: Identity, opened: Opened) -> None:
        self._me, self._opened = me, opened

    def read(self) -> Standing:
        """Return what is so."""
        with self._opened() as store:
            return self._standing(Membership(store, self._me))

    def take(self, records: Sequence[bytes]) -> Standing:
        """Keep what a member sent; raises FormatError where it breaks the rules."""
        with self._opened() as store:
            membership = Membership(store, self._me)
            membership.take(records)
            return self._standing(membership)

    @staticmethod
    def _standing(membership: Membership) -> Standing:
        return Standing(membership.members(), tuple(membership.records()))


class KeptBook:
    """As `hhd.node.peers.Books`."""

    def __init__(self, me: Identity, opened: Opened) -> None:
        self._me, self._opened = me, opened

    def read(self) -> AddressBook:
        """Return what is kept."""
        with self._opened() as store:
            return address_book.read(store)

    def write(self, book: AddressBook) -> None:
        """Keep it."""
        with self._opened() as store:
            address_book.write(store, book)

    def names(self) -> Mapping[DeviceId, str]:
        """Return what the person calls devices."""
        with self._opened() as store:
            names, _ = registry.device_names(store.shared)
            known = members(store, self._me)
            return dict(Devices(me=self._me.id, members=known, names=names).all())
