"""The store of this device, opened while there is something to sync, with all that sync keeps about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hhd.identity.key import Identity
from hhd.node.members import members
from hhd.node.sync.content import Content
from hhd.node.sync.index import Index
from hhd.node.sync.intake import Intake
from hhd.node.sync.recipes import Recipes
from hhd.node.sync.sealed import Sealed
from hhd.store.openings import Openings
from hhd.store.store import Store
from hhd_protocol.statements import Role

UNFOLDED_BYTES, UNFOLDED_BYTES_MAX = 1024 * 1024, 256 * 1024 * 1024
"""From so many bytes at once on, folding the log is put off; no further than this, since it takes room on the disk."""


@dataclass(frozen=True, kw_only=True)
class _Open:
    store: Store
    content: Content
    intake: Intake
    recipes: Recipes
    sealed: Sealed
    openings: Openings = field(default_factory=Openings)


class Held:
    """The store of the device `me`; `open_store` opens it, and it is held open until `rest`."""

    def __init__(self, open_store: Callable[[], Store], me: Identity) -> None:
        self._open_store, self.me = open_store, me
        self._now: _Open | None = None
        self.index = Index()
        """What of each session is here; it outlives a rest."""
        self.unfolded = 0
        """Bytes that the store's log has become longer by since it was last folded, where that was put off."""

    def _open(self) -> _Open:
        if self._now is None:
            store, openings = self._open_store(), Openings()
            content = Content(store, openings)

            def undone() -> None:  # What was found whole within a transaction that was undone may not be here.
                store.families.reread()
                content.forget()

            store.database.undone = undone
            self.index.opened_anew()
            self._now = _Open(
                store=store,
                content=content,
                intake=Intake(store, self.me, content),
                recipes=Recipes(store, openings),
                sealed=Sealed(store, self.me, content),
                openings=openings,
            )
        return self._now

    @property
    def is_open(self) -> bool:
        """Whether the store is held open."""
        return self._now is not None

    @property
    def store(self) -> Store:
        """The store, opened if it is not."""
        return self._open().store

    @property
    def intake(self) -> Intake:
        """What takes in what comes."""
        return self._open().intake

    @property
    def content(self) -> Content:
        """What says what content lacks."""
        return self._open().content

    @property
    def recipes(self) -> Recipes:
        """What makes objects again out of their parents."""
        return self._open().recipes

    @property
    def sealed(self) -> Sealed:
        """What goes to and comes from devices that only store."""
        return self._open().sealed

    @property
    def only_stores(self) -> bool:
        """Whether this device reads nothing of what it keeps."""
        own = members(self.store, self.me).get(self.me.id)
        return own is not None and own.now is Role.STORE_ONLY

    def trim(self) -> None:
        """Let go of what was opened and is not likely to be read again."""
        if self._now is not None:
            self._now.openings.trim()

    @contextmanager
    def putting_off(self, size: int) -> Iterator[None]:
        """A transaction within, which keeps `size` bytes, leaves the log as it is where that or the log is long.

        Folding takes as long again as writing, and a sender hears of it before that.
        """
        if not (self.unfolded or size >= UNFOLDED_BYTES) or self.unfolded + size > UNFOLDED_BYTES_MAX:
            yield
            self.unfolded = 0
            return
        with self.store.database.unfolded():
            yield
        self.unfolded += size

    def fold(self) -> None:
        """Fold the store's log, where that was put off."""
        if self.unfolded and self._now is not None:
            self._now.store.database.fold_some()
        self.unfolded = 0

    def rest(self) -> None:
        """Let go of the store: what holds it open all day stops its repair."""
        if self._now is not None:
            store, content, self._now = self._now.store, self._now.content, None
            content.close()
            with store:
                self.index.keep(store)
