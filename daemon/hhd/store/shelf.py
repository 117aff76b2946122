"""Content kept for others by its SHA-256, and the lists of it that keep it there: what is on no list is freed.

Content is sealed as a record log under the keys that belong to no session, once however many lists have it. A list is
an *item*: itself content, with a label and the digests it needs beside it, so that `hhd gc` and `hhd check` know what
hangs on it without understanding it. Content comes first and the item last, each durable by itself: a crash leaves at
most content on no list. Who puts content holds the shelf (`held`) until its item is there, and `hhd gc` frees nothing
unlisted meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hhd.store import locks
from hhd.store.errors import BusyError, DamagedStoreError, MissingError
from hhd.store.rows import decoded
from hhd_protocol.codec import encode
from hhd_protocol.ids import EpochId, ObjectName, Sha256
from hhd_protocol.objects import Ref

if TYPE_CHECKING:
    from hhd.store.store import Store

CONTENT, ITEM, ITEMS, LABEL = "content", "item", "items", "label"
"""Tables of rows: where content is, by digest; an item by digest; all items in the order they came; items by label."""

VERSION = 1
HOLD_SECONDS = 60.0
"""Freeing everything that is unlisted in a large store takes seconds."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One list: `digest` of its own content, the `label` it was kept under, the digests of the content it needs.

    `broken`: a repair found some of that content lost; keeping the same again makes it whole.
    """

    digest: Sha256
    label: str
    needs: tuple[Sha256, ...]
    broken: bool = False

    def encoded(self) -> bytes:
        """Return the value of its row."""
        return encode([VERSION, self.label, b"".join(self.needs), self.digest, self.broken])


class Shelf:
    """The shelf of one store."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, store.rows

    @contextmanager
    def held(self) -> Iterator[None]:
        """While this lasts, nothing that was put is freed; raises BusyError while something is being freed for long."""
        lock = self._store.hold("shelf", seconds=HOLD_SECONDS, shared=True)
        if lock is None:
            raise BusyError("Another process frees unused parts of the store; nothing was changed. Try again.")
        with lock:
            yield

    def freeing(self) -> locks.Lock | None:
        """Take the right to free what is unlisted, None while somebody puts."""
        return self._store.hold("shelf")

    def put(self, digest: bytes, raw: bytes) -> int:
        """Keep `raw`, whose SHA-256 is `digest`, and return how many bytes that took: none if it was here.

        Raises FullStoreError.
        """
        with self._store.transaction():
            try:
                if self._store.objects.has(self.ref(Sha256(digest)).name):
                    return 0
            except MissingError:
                pass
            self._store.insist_on_room(len(raw))
            stored = 0

            def keep(ref: Ref, sealed: bytes) -> None:
                nonlocal stored
                self._store.keep(ref, sealed)
                stored += len(sealed)

            ref = self._store.log_writer(self._store.commons(), keep, None).append(raw)
            self._rows.put(CONTENT, b"", digest, encode([ref.name, ref.epoch]))
        return stored

    def get(self, digest: bytes) -> bytes:
        """Return content; raises MissingError, DamagedStoreError if it is not what its digest says."""
        raw = b"".join(self._store.reader(self._store.commons()).log(self.ref(Sha256(digest))))
        if hashlib.sha256(raw).digest() != digest:
            raise DamagedStoreError(f"Content {digest.hex()[:16]} is damaged: it does not have its digest.")
        return raw

    def ref(self, digest: Sha256) -> Ref:
        """Return where content is; raises MissingError."""
        raw = self._rows.get(CONTENT, b"", digest)
        match decoded(raw, "row of kept content") if raw is not None else None:
            case [bytes(name), bytes(epoch)]:
                return Ref(name=ObjectName(name), epoch=EpochId(epoch))
            case None if raw is None:
                raise MissingError(f"Content {digest.hex()[:16]} is not in this store.")
        raise DamagedStoreError(f"The row of content {digest.hex()[:16]} is not in the form it was written in.")

    def enter(self, label: str, digest: bytes, needs: Iterable[bytes]) -> None:
        """Keep the list `digest`, which is here as content, and what it needs, under `label`; again changes nothing."""
        made = Item(digest=Sha256(digest), label=label, needs=tuple(Sha256(one) for one in dict.fromkeys(needs)))
        with self._store.transaction():
            before = self._rows.get(ITEM, b"", digest)
            if before == made.encoded():
                return
            self._rows.put(ITEM, b"", digest, made.encoded())
            if before is None:
                self._rows.enlist(ITEMS, b"", digest)
                self._rows.put(LABEL, b"", label.encode(), b"".join((*self.labelled(label), digest)))

    def labelled(self, label: str) -> list[Sha256]:
        """Return the lists kept under `label`, oldest first."""
        raw = self._rows.get(LABEL, b"", label.encode()) or b""
        return [Sha256(raw[at : at + 32]) for at in range(0, len(raw), 32)]

    def labels(self) -> list[str]:
        """Return every label once, in the order they came."""
        return list(dict.fromkeys(item.label for item in self.items()))

    # For check, gc, du and repair

    def items(self) -> Iterator[Item]:
        """Yield every item, oldest first; raises DamagedStoreError at one that cannot be read."""
        for digest in self.digests():
            yield self.item(digest)

    def digests(self) -> list[Sha256]:
        """Return the digests of all items, oldest first."""
        return [Sha256(entry) for entry in self._rows.listing(ITEMS, b"")]

    def item(self, digest: Sha256) -> Item:
        """Return one item; raises DamagedStoreError."""
        raw = self._rows.get(ITEM, b"", digest)
        found = read_item(decoded(raw, "row of a kept list")) if raw is not None else None
        if found is None or found.digest != digest:
            raise DamagedStoreError(f"The row of the kept list {digest.hex()[:16]} is missing or not in its form.")
        return found

    def places(self, item: Item) -> dict[Sha256, Ref | None]:
        """Return where each content of an item is, None for what is not here."""
        found: dict[Sha256, Ref | None] = {}
        for digest in (item.digest, *item.needs):
            try:
                found[digest] = self.ref(digest)
            except MissingError:
                found[digest] = None
        return found

    def roots(self) -> list[Ref]:
        """Return where everything that is listed is, as far as it is here."""
        places = (ref for item in self.items() for ref in self.places(item).values())
        return list(dict.fromkeys(ref for ref in places if ref is not None))

    def remake(self, items: Iterable[Item]) -> bool:
        """Make the lists of items again, old ones in their order and `items` behind; say whether that changed them."""
        known = {item.digest: item for item in items}
        try:
            before = self.digests()
        except DamagedStoreError:
            before = []
        kept = [digest for digest in before if digest in known]
        kept += [digest for digest in known if digest not in kept]
        by_label: dict[str, list[bytes]] = {}
        for digest in kept:
            by_label.setdefault(known[digest].label, []).append(digest)
        changed = kept != before
        with self._store.transaction():
            if changed:
                self._rows.relist(ITEMS, b"", list(map(bytes, kept)))
            for label, digests in by_label.items():
                try:
                    same = self.labelled(label) == digests
                except DamagedStoreError:
                    same = False
                if not same:
                    self._rows.put(LABEL, b"", label.encode(), b"".join(digests))
                    changed = True
        return changed

    def mark_broken(self, item: Item, gone: Iterable[Sha256]) -> None:
        """Note that some content of an item is lost, and forget where that was."""
        with self._store.transaction():
            self._rows.put(ITEM, b"", item.digest, replace(item, broken=True).encoded())
            for digest in gone:
                self._rows.delete(CONTENT, b"", digest)


def read_item(value: object) -> Item | None:
    """Return the item that a row's value stands for, None if it is none."""
    match value:
        case [1, str(label), bytes(needs), bytes(digest), bool(broken)] if len(needs) % 32 == 0 and len(digest) == 32:
            listed = tuple(Sha256(needs[at : at + 32]) for at in range(0, len(needs), 32))
            return Item(digest=Sha256(digest), label=label, needs=listed, broken=broken)
    return None
