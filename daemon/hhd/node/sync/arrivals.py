"""Content that comes in: put together of its parts, and kept in few transactions; what is acknowledged was durable."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from hhd.base.errors import UserError
from hhd.node.sync.held import Held
from hhd.node.sync.letters import LettersIn
from hhd.node.sync.serving import EAGER_OBJECTS_MAX
from hhd.node.sync.statements import Fresh, StatementsIn
from hhd.node.sync.talk import Talk
from hhd.store.begun import Begun
from hhd.store.errors import BusyError, FullStoreError
from hhd.store.retention import session_bytes
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, FamilyId, ObjectName, SessionId, Sha256
from hhd_protocol.objects import SealedObject, object_name
from hhd_protocol.sync.events import Arrived, Broke, Hold, Tick
from hhd_protocol.sync.messages import MODULE, OBJECT, Absent, Part, Rebuild, Statements
from hhd_protocol.sync.wants import NO_SESSION

log = logging.getLogger(__name__)

FULL = "its disk has no room left"
FLUSH_BYTES = 8 * 1024 * 1024
"""Objects that came are kept together: one durable write for so many bytes, or once a peer sent all it was asked."""
FLUSH_MS = 100
"""And for so long at most: of a session at work there is always something that was asked for and has not come."""
EAGER_BYTES_MAX = 64 * 1024 * 1024
"""Of objects made again out of recipes that no checkpoint has brought yet: one image of an era, and a step or two."""
UNASKED_BYTES_MAX = 64 * 1024 * 1024
"""Content that a peer gives and was not asked for, on one link: two askings may cross, and that is all."""


class Arrivals:
    """Takes content into `held`; `objects`: those that came and are not kept yet, each with who sent it."""

    def __init__(
        self,
        held: Held,
        talk: Talk,
        objects: dict[ObjectName, tuple[bytes, DeviceId]],
        statements: StatementsIn,
        letters: LettersIn,
        *,
        session_bytes_max: int | None,
    ) -> None:
        self._held, self._talk, self._statements, self._letters = held, talk, statements, letters
        self._session_bytes_max = session_bytes_max
        self._begun: Begun | None = None
        self._objects = objects
        self._modules: dict[Sha256, tuple[bytes, DeviceId]] = {}
        self._bytes = 0
        self._since_ms: int | None = None
        """When the first of them came."""
        self._eager: dict[ObjectName, bytes] = {}
        self._unasked: Counter[DeviceId] = Counter()
        self._bytes_of: Counter[SessionId] = Counter()

    @property
    def begun(self) -> Begun:
        """What has begun to come; of what a process before this one was given, too."""
        if self._begun is None:
            store = self._held.store
            self._begun = Begun(store.folder, lambda size: self._held.store.insist_on_room(size), now_ms=store.now_ms())
        return self._begun

    def write(self) -> None:
        """Write what has begun to come, for the process after this one; where that cannot be, it is asked for again."""
        with suppress(UserError):
            self.begun.write()

    def sweep(self) -> None:
        """Drop what has begun to come and is not wanted any more. A device that only stores learns that from peers."""
        if self.begun.in_files and not self._held.only_stores:
            self.begun.sweep(lambda name: name in self._talk.machine.wants)

    def linked(self, peer: DeviceId) -> None:
        """A link is up."""
        self._unasked.pop(peer, None)

    def take(self, peer: DeviceId, part: Part) -> None:
        """A part came; raises FormatError."""
        machine = self._talk.machine
        if machine.wants.asked(part.name) != peer:
            if machine.holding.get(None) == FULL and part.name in machine.wants:
                return  # It was under way when the disk was full.
            self._unasked[peer] += len(part.content)
            if self._unasked[peer] > UNASKED_BYTES_MAX:
                raise FormatError("it gives what it was not asked for, without end")
            return
        if part.what != OBJECT and part.offset == 0:
            self.begun.drop(part.name)  # Only objects are gone on with.
        try:
            whole = self.begun.add(part, peer)
        except FullStoreError:
            machine.wants.again(part.name)
            raise
        if whole is None:
            return
        if part.what == OBJECT and not self._is_object(part.name, whole, peer):
            return
        session = machine.wants.session(part.name)
        assert session is not None
        if part.what == OBJECT:  # A program is no session's own.
            self.weigh(session, len(whole))
        if machine.peers[peer].sealed and (self._held.only_stores or part.what != OBJECT):
            try:
                self._letters.take(peer, part.what, part.name, whole)
            except FormatError:
                self.begun.drop(part.name)
                raise
            self.begun.drop(part.name)
            self._flush_if_due(peer)
            self._letters.settle(peer)
            return
        if part.what == MODULE:
            self._modules[Sha256(part.name)] = whole, peer
        elif part.what == OBJECT:
            self._objects[ObjectName(part.name)] = whole, peer
        else:
            raise FormatError("it gives something else than it was asked for")
        self._bytes += len(whole)
        self._flush_if_due(peer)

    def take_recipe(self, peer: DeviceId, message: Rebuild) -> None:
        """An object that was asked for came as the difference to its parent; raises FormatError."""
        raw = self._held.recipes.rebuilt(message)
        if raw is None:
            self.not_made(peer, message)
            return
        self._objects[message.name] = raw, peer
        self._bytes += len(raw)
        if (session := self._talk.machine.wants.session(message.name)) is not None:
            self.weigh(session, len(raw))
        self.flush()

    def make(self, message: Rebuild) -> bool:
        """Make an object for a checkpoint to come; False where it cannot be made here. Raises FormatError."""
        raw = self._held.recipes.rebuilt(message)
        if raw is None:
            return False
        if len(self._eager) < EAGER_OBJECTS_MAX and sum(map(len, self._eager.values())) < EAGER_BYTES_MAX:
            self._eager[message.name] = raw
        return True

    def not_made(self, peer: DeviceId, message: Rebuild) -> None:
        """An object cannot be made of its recipe here: the peer is to send whole ones from now on."""
        self._talk.send(peer, Absent(objects=(message.name,)))  # In this direction.
        self._talk.machine.wants.again(message.name)
        self._talk.feed(Tick())

    def with_made(self, message: Statements) -> Statements:
        """Return a message with the objects that were made out of recipes for it, and forget those."""
        if not self._eager:
            return message
        made = tuple(self._eager.values())
        self._eager.clear()
        return replace(message, objects=(*message.objects, *made))

    def drop(self) -> None:
        """Forget the objects that came and are not kept: there is no room for them."""
        self._objects.clear()
        self._bytes, self._since_ms = 0, None

    def flush(self) -> None:
        """Keep the objects that came, in one transaction, and the checkpoints that are whole with them.

        A module that is another one than it was asked for as costs who gave it the link, and nothing else.
        """
        if not self._objects and not self._modules:
            return
        objects, modules = dict(self._objects), self._modules
        self.drop()
        self._modules = {}
        sessions: dict[SessionId, DeviceId] = {}
        held, store, machine = self._held, self._held.store, self._talk.machine
        given = {name: raw for name, (raw, _) in objects.items()}
        of = {name: machine.wants.session(name) for name in given}
        size = sum(map(len, given.values()))
        owned: dict[SessionId, list[Fresh]] = {}
        broken: dict[Sha256, FormatError] = {}
        try:
            with (
                held.putting_off(size),
                store.transaction(),
                held.content.given(given, self._families(of)),
            ):
                store.insist_on_room(size)
                for name, (raw, peer) in objects.items():
                    store.objects.put(raw, name=name)
                    if (session := of[name]) is not None:
                        sessions[session] = peer
                for module, (raw, peer) in modules.items():
                    if (session := machine.wants.session(module)) is not None:
                        try:
                            held.content.take_module(module, store.session(session).family, raw[:32], raw[32:])
                        except FormatError as error:
                            broken[module] = error
                            continue
                        sessions[session] = peer
                taken = []
                for session in sessions:
                    own = owned.setdefault(session, [])
                    bare = list(held.index.seen(store, session).bare)
                    taken.append(held.intake.content(session, bare, partial(self._statements.catch_up, session, own)))
        except (FullStoreError, BusyError) as error:
            self._statements.not_told(owned)
            if isinstance(error, FullStoreError):
                log.warning("sync: nothing more is taken: %s", error)
                self._talk.feed(Hold(why=FULL))
            for dropped in (*objects, *modules):
                machine.wants.again(dropped)
            if isinstance(error, BusyError):
                raise
            return
        for kept in (*objects, *modules):
            self.begun.drop(kept)
        arrived: list[tuple[bytes, DeviceId]] = [(name, peer) for name, (_, peer) in objects.items()]
        arrived += [(module, peer) for module, (_, peer) in modules.items() if module not in broken]
        for came, peer in arrived:
            self._talk.feed(Arrived(name=came, source=peer))
        for one in taken:
            self._statements.took(one, sessions[one.session], owned[one.session])
        for module, wrong in broken.items():  # Whoever had it be kept now, and may not have given it.
            self._talk.feed(Broke(peer=modules[module][1], why=str(wrong)))

    def _families(self, of: Mapping[ObjectName, SessionId | None]) -> dict[ObjectName, FamilyId]:
        """Return the families whose objects these are, of sessions that are here."""
        store, here = self._held.store, self._held.intake.has_session
        found = {session: store.session(session).family for session in set(of.values()) if session and here(session)}
        return {name: found[session] for name, session in of.items() if session in found}

    def has_room(self) -> bool:
        """Whether there is room for more."""
        try:
            self._held.store.insist_on_room(FLUSH_BYTES)
        except UserError:
            return False
        return True

    def _flush_if_due(self, peer: DeviceId) -> None:
        here, now_ms = len(self._objects) + len(self._modules), self._talk.now_ms()
        if here and self._since_ms is None:
            self._since_ms = now_ms
        late = self._since_ms is not None and now_ms >= self._since_ms + FLUSH_MS
        if late or self._bytes >= FLUSH_BYTES or self._talk.machine.wants.waits_for(peer) <= here:
            self.flush()

    def weigh(self, session: SessionId, size: int) -> None:
        """Stop at the size that a session may have here; who sends is told, and its session goes on."""
        if session == NO_SESSION:
            return  # What is for a device that only stores belongs to no session that it could tell.
        self._bytes_of[session] += size
        if (why := self._too_much(session)) is not None:
            self._talk.feed(Hold(why=why, session=session))

    def _too_much(self, session: SessionId) -> str | None:
        most = self._session_bytes_max
        return (
            None if most is None or self._bytes_of[session] <= most else f"it takes at most {most} bytes of one session"
        )

    def full(self, me: DeviceId) -> Iterator[tuple[SessionId, str]]:
        """Weigh what came before this process; yield the sessions of which no more is taken, and why.

        What this device made of a session itself is not what it took: of one that it worked on, only what comes counts.
        """
        if self._session_bytes_max is None:
            return
        store = self._held.store
        for session in store.sessions():
            if not any(
                isinstance(one.body, CheckpointBody) and one.body.by == me for one in store.statements.all(session)
            ):
                self._bytes_of[session] = session_bytes(store, session)[2]
            if (why := self._too_much(session)) is not None:
                yield session, why

    def _is_object(self, name: bytes, raw: bytes, peer: DeviceId) -> bool:
        """Whether an object that came is the one of its name; if it is not, all that came of it is dropped.

        Raises FormatError where all of it came from `peer`: nobody is to blame for what others began.
        """
        try:
            if object_name(raw) != name:
                raise FormatError("an object is not the one of its name")
            SealedObject(raw)
        except FormatError:
            alone = set(self.begun.came_from(name)) == {peer}
            self.begun.drop(name)
            if alone:
                raise
            log.warning("sync: object %s came in pieces that do not make it; it is asked for anew", name.hex()[:16])
            self._talk.machine.wants.again(name)
            self._talk.feed(Tick())
            return False
        return True
