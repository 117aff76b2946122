"""What goes to a store-only device, and how a full member reads it back: sealed bytes by their names, nothing else.

A full member that faces one has a *pile*: every object that its sessions need, the modules, and letters with all
statements. The store-only device keeps what it was given, and says what it has.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Mapping

from hhd.identity.key import Identity
from hhd.node.members import Member, members
from hhd.node.sync.content import Content
from hhd.store.checkpoints import refs_of
from hhd.store.closure import Closure
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.objects import Ref
from hhd_protocol.statements import Role
from hhd_protocol.sync.letters import Letter, open_letter, seal_letter
from hhd_protocol.sync.messages import LETTER, MODULE, OBJECT, Entry

log = logging.getLogger(__name__)
LETTER_STATEMENTS = 200
LETTER_BYTES = 500 * 1024
"""Of statements in one letter."""


class Sealed:
    """The piles of one store, for the device `me`."""

    def __init__(self, store: Store, me: Identity, content: Content) -> None:
        self._store, self._me, self._content = store, me, content
        self._of: dict[SessionId, tuple[bytes, dict[bytes, int]]] = {}
        self._modules: dict[bytes, tuple[Sha256, SessionId]] = {}

    def pile(self, left_out: Collection[SessionId]) -> dict[bytes, int]:
        """Return what a store-only device is to have of this one's; letters are written as far as they are due."""
        if self._role() is Role.STORE_ONLY:
            return self._store.piles.names()
        found: dict[bytes, int] = {}
        readers = self._readers()
        for session in self._store.sessions():
            if session not in left_out:
                try:
                    found |= self._of_session(session, readers)
                except (DamagedStoreError, MissingError) as error:
                    log.warning("sync: session %s is left out: %s", session.hex()[:16], error)
        for name in self._store.piles.read():
            found[name] = LETTER
        return found

    def raw(self, name: bytes, *, letter: bool) -> tuple[int, bytes] | None:
        """Return what a peer asked for by name; with `letter` only if it is one."""
        if self._role() is Role.STORE_ONLY:
            kept = self._store.piles.get(name)
            return kept if kept is None or (kept[0] == LETTER) == letter else None
        if (raw := self._store.piles.letter(name)) is not None:
            return LETTER, raw
        if letter:
            return None
        if name in self._modules:
            module, session = self._modules[name]
            sealed = self._content.sealed_module(module, self._store.session(session).family)
            return None if sealed is None else (MODULE, sealed[1])
        raw = self._store.objects.raw(ObjectName(name))
        return None if raw is None else (OBJECT, raw)

    def wanted(self, names: Collection[bytes]) -> list[bytes]:
        """Return which of the names that a peer has are asked for: all by who only stores, by others unread letters."""
        if self._role() is Role.STORE_ONLY:
            return [name for name in names if self._store.piles.get(name) is None]
        known = self._store.piles.read()
        return [name for name in names if name not in known and not self._store.objects.has(ObjectName(name))]

    def keep(self, what: int, name: bytes, raw: bytes) -> None:
        """Keep what came, at a store-only device; within a transaction. Raises FormatError."""
        if hashlib.sha256(raw).digest() != name:
            raise FormatError("sealed bytes are not those of their name")
        self._store.piles.put(what, name, raw)

    def read(self, raw: bytes) -> Letter | None:
        """Open a letter; None if it is to others. Raises FormatError."""
        return open_letter(raw, self._me.seed, {device: one.public for device, one in self._writers().items()})

    def _role(self) -> Role | None:
        own = members(self._store, self._me).get(self._me.id)
        return Role.FULL if own is None else own.now

    def _writers(self) -> Mapping[DeviceId, Member]:
        """Who is, or was, full: what they wrote then is read for ever."""
        return {id: one for id, one in members(self._store, self._me).items() if one.role is Role.FULL}

    def _readers(self) -> list[bytes]:
        return sorted(one.public for one in members(self._store, self._me).values() if one.full)

    def _of_session(self, session: SessionId, readers: list[bytes]) -> dict[bytes, int]:
        store = self._store
        mark = store.arrived.revision(session) + hashlib.sha256(b"".join(readers)).digest()
        kept = self._of.get(session)
        if kept is not None and kept[0] == mark:
            return kept[1]
        family = store.session(session).family
        checkpoints = [store.checkpoint(one) for one in store.checkpoint_ids(session)]
        closure = Closure(store.reader(family).head)
        found: dict[bytes, int] = {}
        modules: dict[Sha256, Ref] = {}
        for checkpoint in checkpoints:
            if checkpoint.thinned:
                continue
            closure.add(refs_of(checkpoint))
            if (module := checkpoint.payload.module) is not None and module not in modules:
                sealed = self._content.sealed_module(module, family)
                if sealed is not None:
                    name = hashlib.sha256(sealed[1]).digest()
                    modules[module] = Ref(name=ObjectName(name), epoch=sealed[0])
                    self._modules[name] = module, session
                    found[name] = MODULE
        found.update({ref.name: OBJECT for ref in closure.needed if store.objects.has(ref.name)})
        self._write_letters(session, readers, modules)
        found.update(dict.fromkeys(store.piles.letters(session), LETTER))
        self._of[session] = mark, found
        return found

    def _write_letters(self, session: SessionId, readers: list[bytes], modules: Mapping[Sha256, Ref]) -> None:
        """Put the statements that are in no letter yet into one, or several."""
        store = self._store
        keys = store.family(session)
        with store.transaction():
            had = store.piles.lettered(session, hashlib.sha256(b"".join(readers)).digest())
            batch: list[Entry] = []
            ids: list[StatementId] = []
            size = 0

            def write() -> None:
                letter = Letter(
                    by=self._me.id,
                    family=keys.id,
                    page_key=keys.page_key,
                    epochs=tuple(keys.epochs.items()),
                    epoch=keys.epoch,
                    session=session,
                    entries=tuple(batch),
                    modules=tuple(modules.items()),
                )
                raw = seal_letter(letter, self._me.seed, readers, secret=store.random(32), key=store.random(32))
                store.piles.write(session, raw, ids)
                batch.clear()
                ids.clear()

            for one in store.statements.all(session):
                if one.id in had:
                    continue
                batch.append(self._entry(CheckpointId(one.id), one.raw))
                ids.append(one.id)
                size += len(one.raw) + 400
                if len(batch) >= LETTER_STATEMENTS or size > LETTER_BYTES:
                    write()
                    size = 0
            if batch:
                write()

    def _entry(self, id: CheckpointId, raw: bytes) -> Entry:
        try:
            kept = self._store.checkpoint(id)
        except MissingError:
            awaited = self._store.arrived.awaited(id)
            return Entry(raw=raw, payload=None if awaited is None else awaited.raw)
        return Entry(raw=raw, payload=kept.payload.encoded(), thinned=kept.thinned)
