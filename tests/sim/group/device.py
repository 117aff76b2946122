"""One simulated device: the product's `Membership` over a store that is a list, and a chain of statements."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from typing import Any

import hhd.node.group as product
from hhd.identity.key import Identity
from hhd_protocol import group as protocol
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.fencing import Resolved
from hhd_protocol.group import Group, GroupRecord
from hhd_protocol.ids import DeviceId, GroupRecordId, SessionId, StatementId
from hhd_protocol.statements import Checkpoint, Role

SESSION = SessionId(StatementId(sha256(b"the session").digest()))

decoded = lru_cache(maxsize=4096)(protocol.decode)
"""The same bytes are the same record, whoever reads them: checking a signature five times shows nothing more."""
product.decode = lambda raw, checked=False: decoded(raw)  # type: ignore[attr-defined,assignment]


class Kept:
    """`GroupRecords` without a disk."""

    def __init__(self) -> None:
        self.raws: list[bytes] = []
        self._root: GroupRecordId | None = None
        self._era: bytes | None = None

    def root(self) -> GroupRecordId | None:
        return self._root

    def all(self) -> list[bytes]:
        return list(self.raws)

    def count(self) -> int:
        return len(self.raws)

    def append(self, records: Iterable[bytes], *, root: GroupRecordId, era: bytes | None) -> None:
        self.raws += records
        self._root, self._era = root, era if era is not None else self._era

    def era(self) -> bytes | None:
        return self._era


class NoLists:
    """The devices that lists of sessions tell of: no world here has a list."""

    def note_devices(self, devices: Iterable[DeviceId]) -> None:
        """Nothing is kept."""


class MemoryStore:
    """What `Membership` wants of a store: a transaction that is undone when it fails."""

    def __init__(self) -> None:
        self.group, self.freshness = Kept(), NoLists()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = copy.copy(self.group), list(self.group.raws)
        try:
            yield
        except BaseException:
            self.group, self.group.raws = before
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        yield

    def sessions_count(self) -> int:
        return 0


class SimMembership(product.Membership):
    """The product's, whose cut-offs come of the simulated chains instead of stored sessions."""

    device: Device

    def _cutoffs(self, device: DeviceId) -> Iterator[tuple[SessionId, tuple[StatementId, ...]]]:
        last = self.device.judged().last_of(device)
        if last:
            yield SESSION, last

    def _signed_in(self, device: DeviceId) -> Iterator[SessionId]:
        return iter(())


class Device:
    """A device with its key, its group, and what it knows of one session."""

    def __init__(self, name: str) -> None:
        seed = name.encode().ljust(32, b"\0")
        public = public_key(seed)
        self.name, self.seed, self.public = name, seed, public
        self.id = device_id(public)
        self.store = MemoryStore()
        me = Identity(seed=seed, public=public, id=self.id)
        store: Any = self.store
        self.membership = SimMembership(store, me)
        self.membership.device = self
        self.statements: dict[StatementId, Checkpoint] = {}
        self.tip: StatementId | None = None

    @property
    def group(self) -> Group | None:
        return self.membership.group

    @property
    def root(self) -> GroupRecordId | None:
        return self.store.group.root()

    @property
    def records(self) -> list[GroupRecord]:
        return [decoded(raw) for raw in self.store.group.raws]

    @property
    def live(self) -> bool:
        """Whether it is a member, as far as it knows."""
        return self.group is None or self.id in self.group.members

    @property
    def full(self) -> bool:
        return self.group is None or self.id in self.group.full

    def judged(self) -> Resolved:
        """What the statements here mean under the group here."""
        group = self.group
        revocations = [] if group is None else group.revocations(SESSION)
        roles = {} if group is None else {id: Role.FULL for id in group.devices}
        return Resolved(session=SESSION, members=roles, facts=[*self.statements.values(), *revocations])

    def sealed(self) -> set[StatementId]:
        """The statements that count for nothing here."""
        cutoffs = self.judged()._cutoffs
        return {id for id, one in self.statements.items() if cutoffs.seals(one)}

    def signs(self, salt: int) -> Checkpoint:
        """Sign the next statement, in the chain that counts: a device that was added again begins a new one."""
        anew = self.judged().view.anew.get(self.id)
        after = self.tip
        if anew and not self._leads_to(after, anew):
            after = min(anew)
        body = sha256(self.name.encode() + salt.to_bytes(8, "big") + (after or b"")).digest()
        made = Checkpoint(id=StatementId(body), by=self.id, after=after, signature_good=True, token=SESSION, parents=())
        self.statements[made.id], self.tip = made, made.id
        return made

    def _leads_to(self, at: StatementId | None, begins: Iterable[StatementId]) -> bool:
        while at is not None and at in self.statements:
            at = self.statements[at].after
        return at in begins
