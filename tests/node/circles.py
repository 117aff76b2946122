"""Stores of several devices of alice's, and the group they form, without a wire between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hhd.identity.key import Identity
from hhd.node.group import Membership
from hhd.store.store import Store
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.statements import Role

NOW = 1_700_000_000_000


def identity(name: str) -> Identity:
    """The device of that name, the same in every test."""
    seed = name.encode().ljust(32, b"\0")
    return Identity(seed=seed, public=public_key(seed), id=device_id(public_key(seed)))


@dataclass(kw_only=True)
class Owned:
    """One device: its store, its key, its group."""

    name: str
    me: Identity
    store: Store
    group: Membership

    def adds(self, other: Owned, role: Role = Role.FULL) -> None:
        """Pair with `other` as a wire would: found if need be, add, hand over, join, hear of it."""
        self.group.found(self.name, NOW)
        self.group.add(other.me.public, other.name, role, NOW)
        assert self.group.group is not None
        other.group.join(self.group.records(), self.group.group.root, NOW)
        self.group.take(other.group.records())

    def hears(self, *others: Owned) -> None:
        """Take the records of others."""
        for other in others:
            self.group.take(other.group.records())

    @property
    def names(self) -> set[str]:
        """The names of the members now, as this device has it."""
        group = self.group.group
        return {self.name} if group is None else {one.name for one in group.members.values()}


@contextmanager
def devices(folder: Path, *names: str) -> Iterator[list[Owned]]:
    """Open a store for each of `names`."""
    found = []
    try:
        for name in names:
            me = identity(name)
            store = Store.open(folder / name, seed=me.seed)
            found.append(Owned(name=name, me=me, store=store, group=Membership(store, me)))
        yield found
    finally:
        for one in found:
            one.store.close()
