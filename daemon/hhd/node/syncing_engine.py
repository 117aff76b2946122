"""The sync of this device: the pure machine joined with the store, without any network.

    engine = Engine(open_store, me)
    out = engine.linked(peer)              # and heard, noticed, ticked …: what there is to send, and what happened
    raw = engine.next_part(peer)           # of content that the peer asked for, None if there is none

Used by one thread. Everything that a peer gave goes through `Intake`; what is sent is read when its turn comes. Content
that came is kept in few transactions; what is acknowledged was durable before.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from hhd.base.errors import UserError
from hhd.identity.key import Identity
from hhd.node import denials
from hhd.node.members import members
from hhd.node.syncing_content import Content
from hhd.node.syncing_index import Index
from hhd.node.syncing_intake import Intake, NoKeys, Taken
from hhd.node.syncing_recipes import Recipes
from hhd.node.syncing_sealed import Sealed
from hhd.store.errors import DamagedStoreError, FullStoreError, MissingError
from hhd.store.openings import Openings
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody, CreateBody, ReleaseBody, TakeoverBody
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, EpochId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import (
    SYNC_EAGER_BYTES_MAX,
    SYNC_PART_BYTES,
    SYNC_STATEMENTS_MESSAGE_MAX,
)
from hhd_protocol.objects import SealedObject, object_name
from hhd_protocol.statements import Role
from hhd_protocol.sync import Sync, decode_message, encode_message
from hhd_protocol.sync import events as happenings
from hhd_protocol.sync.events import Changed, Event, Output
from hhd_protocol.sync.machine import NO_SESSION, had
from hhd_protocol.sync.messages import (
    LETTER,
    MODULE,
    OBJECT,
    Absent,
    AskKeys,
    Begin,
    Entry,
    Had,
    Keys,
    Message,
    Part,
    Rebuild,
    Statements,
    Want,
)
from hhd_protocol.sync.order import in_order
from hhd_protocol.sync.parts import Parts

log = logging.getLogger(__name__)

STATEMENTS_BYTES = 600 * 1024
"""Of statements in one message."""
FULL = "its disk has no room left"
FLUSH_BYTES = 8 * 1024 * 1024
"""Objects that came are kept together: one durable write for so many bytes, or once a peer sent all it was asked."""
STASHED_MAX = 64
"""Messages that wait for the keys of their session: they come in the next round otherwise."""
EAGER_OBJECTS_MAX = 64
"""Objects that were made again out of recipes and wait for the checkpoint that brings them."""
UNASKED_BYTES_MAX = 64 * 1024 * 1024
"""Content that a peer gives and was not asked for, on one link: two askings may cross, and that is all."""


@dataclass(kw_only=True)
class Out:
    """What there is to do after something happened.

    `messages`: to send, in order. `content`: peers for whom `next_part` has something. `cuts`: links to end, with the
    reason. `answered`: who answered since this device woke. `fenced`, `changed`: sessions that this device may not
    advance any more, and those that are otherwise here.
    """

    messages: list[tuple[DeviceId, bytes]] = field(default_factory=list)
    content: set[DeviceId] = field(default_factory=set)
    cuts: list[tuple[DeviceId, str]] = field(default_factory=list)
    answered: set[DeviceId] = field(default_factory=set)
    fenced: set[SessionId] = field(default_factory=set)
    changed: set[SessionId] = field(default_factory=set)
    acknowledged: set[SessionId] = field(default_factory=set)


@dataclass(kw_only=True)
class Counted:
    """What went over one peer's links since the daemon started, in bytes of messages."""

    sent: int = 0
    received: int = 0
    objects_sent: Counter[bytes] = field(default_factory=Counter)


class Screen(Protocol):
    """What is not to go to a device."""

    def left_out(self, store: Store, device: DeviceId, revisions: Mapping[SessionId, bytes]) -> frozenset[SessionId]:
        """Return all such sessions; `revisions`: of all that there are."""

    def leaves_out(self, store: Store, device: DeviceId, session: SessionId) -> bool:
        """Whether it is one."""


class Engine:
    """The sync of the device `me`; `open_store` opens its store, which is held open until `rest`."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        me: Identity,
        *,
        now_ms: Callable[[], int],
        incarnation: Incarnation,
        screen: Screen | None = None,
        session_bytes_max: int | None = None,
    ) -> None:
        self._open_store, self._me, self._now_ms, self._screen = open_store, me, now_ms, screen
        self.machine = Sync(incarnation=incarnation)
        self._incarnation = incarnation
        self._session_bytes_max = session_bytes_max
        self._store: Store | None = None
        self._content: Content | None = None
        self._intake: Intake | None = None
        self._recipes: Recipes | None = None
        self._openings = Openings()
        self._sealed: Sealed | None = None
        self._module_of: dict[bytes, tuple[Sha256, SessionId, EpochId]] = {}
        """Of sealed modules that letters told of, by their names."""
        self._letters: dict[bytes, bytes] = {}
        """Letters that came before one that they stand on."""
        self.index = Index()
        self._parts = Parts()
        self._queues: dict[DeviceId, deque[tuple[SessionId, int, bytes, int]]] = {}
        self._pending: dict[ObjectName, tuple[bytes, DeviceId]] = {}
        self._pending_modules: dict[Sha256, tuple[bytes, DeviceId]] = {}
        self._pending_bytes = 0
        self._eager: dict[ObjectName, bytes] = {}
        self._stashed: deque[tuple[DeviceId, Statements]] = deque(maxlen=STASHED_MAX)
        self._unasked: Counter[DeviceId] = Counter()
        self._bytes_of: Counter[SessionId] = Counter()
        self._read: tuple[bytes, bytes] | None = None
        self.eager = True
        """Whether a step's objects go along with it unasked; not while pages are coalesced."""
        self.counted: dict[DeviceId, Counted] = {}
        self.known: dict[DeviceId, dict[SessionId, CheckpointId]] = {}
        """By peer, the newest checkpoint of each session that it acknowledged with its content, since this began."""
        self._out = Out()

    # The store, held while there is something to do

    @property
    def store(self) -> Store:
        """The store, opened if it is not."""
        if self._store is None:
            self._store = self._open_store()
            self._openings = Openings()
            self._content = Content(self._store, self._openings)
            self._intake = Intake(self._store, self._me, self._content)
            self._recipes = Recipes(self._store, self._openings)
            self._sealed = Sealed(self._store, self._me, self._content)
        return self._store

    @property
    def intake(self) -> Intake:
        """What takes in what comes."""
        assert self.store is not None and self._intake is not None
        return self._intake

    @property
    def content(self) -> Content:
        """What says what content lacks."""
        assert self.store is not None and self._content is not None
        return self._content

    @property
    def recipes(self) -> Recipes:
        """What makes objects again out of their parents."""
        assert self.store is not None and self._recipes is not None
        return self._recipes

    @property
    def sealed(self) -> Sealed:
        """What goes to and comes from devices that only store."""
        assert self.store is not None and self._sealed is not None
        return self._sealed

    def rest(self) -> None:
        """Let go of the store: what holds it open all day stops its repair."""
        if self._store is not None:
            store = self._store
            self._store = self._content = self._intake = self._recipes = self._read = self._sealed = None
            self._openings = Openings()
            with store:
                self.index.keep(store)

    # What happens

    def open(self) -> Out:
        """Look at all sessions; nothing else may be asked before."""
        bare = self.index.open(self.store)
        out = self._happens(happenings.Opened(digests=self.index.digests))
        self._left_out(self._me.id)  # What is found is kept: who links is not kept waiting for it.
        for session in bare:  # What was under way when the process before ended.
            self._took(self.intake.content(session, list(self.index.seen(self.store, session).bare)), None)
        return out

    def linked(self, peer: DeviceId, *, sealed: bool = False) -> Out:
        """A link is up; `sealed`: this device or the peer only stores."""
        self._queues.setdefault(peer, deque()).clear()
        self.counted.setdefault(peer, Counted())
        self._unasked.pop(peer, None)
        left_out = self._left_out(peer)
        if not sealed:
            return self._happens(happenings.Linked(peer=peer, left_out=left_out))
        out = self._happens(happenings.Piled(pile=self.sealed.pile(left_out)))
        return _joined(out, self._happens(happenings.Linked(peer=peer, left_out=left_out, sealed=True)))

    def piled(self) -> Out:
        """Look what a store-only device is to have by now, or has."""
        out = Out()
        for one in list(self.machine.peers.values()):
            if one.sealed:
                _joined(out, self._happens(happenings.Piled(pile=self.sealed.pile(one.left_out))))
        return out

    def lost(self, peer: DeviceId) -> Out:
        """The link is gone."""
        self._queues.pop(peer, None)
        self._flush()
        return self._happens(happenings.Lost(peer=peer))

    def heard(self, peer: DeviceId, raw: bytes) -> Out:
        """A message came, on either channel."""
        if peer not in self.machine.peers:
            return Out()
        self.counted.setdefault(peer, Counted()).received += len(raw)
        try:
            message = decode_message(raw)
        except FormatError as error:
            return self._happens(happenings.Broke(peer=peer, why=str(error)))
        if isinstance(message, Absent) and any(self.recipes.was_given(name) for name in message.objects):
            self.recipes.refused.add(peer)
        return self._happens(happenings.Heard(peer=peer, message=message))

    def noticed(self, session: SessionId) -> Out:
        """Somebody on this device added to a session."""
        self.store.families.reread()
        return self._compared_again(session, Out())

    def _compared_again(self, session: SessionId, out: Out) -> Out:
        """Tell peers what is new of a session or, where that is not known, have them find out."""
        held = self.index.holds(session)
        self._screen_one(session)
        with self.store.snapshot():
            fresh = self.index.news(self.store, session)
            event = self._changed(session, fresh, None, self.store.arrived.revision(session))
        _joined(out, self._happens(event))
        if not held and event.digest is not None:
            for peer in self.machine.peers.values():
                peer.asked_ms = -(10**9)
            _joined(out, self._happens(happenings.Tick()))
        return out

    def looked(self) -> Out:
        """Look whether others wrote to the store without a word, and tell of it."""
        self.store.families.reread()
        out = Out()
        for session in self.index.changed(self.store):
            self._compared_again(session, out)
        return _joined(out, self._happens(happenings.Tick()))

    def ticked(self) -> Out:
        """Time passed."""
        self._flush()
        out = Out()
        if self.machine.holding.get(None) == FULL and self._has_room():
            out = self._happens(happenings.Hold(why=""))
        return _joined(out, self._happens(happenings.Tick()))

    def woke(self) -> Out:
        """The device slept: all that is known may be old."""
        return self._happens(happenings.Woke())

    def regrouped(self) -> Out:
        """Who is a member changed: what could not be judged before comes in the next round."""
        self.intake.forget()
        out = self.rescreened()
        for peer in self.machine.peers.values():
            peer.asked_ms = -(10**9)
        return _joined(out, self._happens(happenings.Tick()))

    def rescreened(self) -> Out:
        """What peers are to have may be another than before."""
        out = Out()
        for peer in list(self.machine.peers):
            left_out = self._left_out(peer)
            _joined(out, self._happens(happenings.Allowed(peer=peer, left_out=left_out)))
        return out

    def _left_out(self, peer: DeviceId) -> frozenset[SessionId]:
        return frozenset() if self._screen is None else self._screen.left_out(self.store, peer, self.index.revisions)

    def _screen_one(self, session: SessionId) -> None:
        """Before a session goes to a peer the first time, look whether it may."""
        for peer, one in self.machine.peers.items():
            if self._screen is not None and self._screen.leaves_out(self.store, peer, session):
                one.left_out |= {session}

    def hold(self, why: str, session: SessionId | None = None) -> Out:
        """Take no content now, of `session` or of any; empty: again."""
        return self._happens(happenings.Hold(why=why, session=session))

    def deadline_ms(self) -> int | None:
        """When to say `ticked`."""
        return self.machine.deadline()

    def next_part(self, peer: DeviceId) -> bytes | None:
        """Return the next part of what a peer asked for; None if there is nothing."""
        queue = self._queues.get(peer)
        while queue:
            session, what, name, offset = queue[0]
            if self.machine.peers[peer].sealed:
                what, raw = self.sealed.raw(name, letter=what == MODULE) or (what, None)
            elif offset == 0 and what == OBJECT and (recipe := self.recipes.recipe(peer, session, ObjectName(name))):
                queue.popleft()
                return self._count(peer, encode_message(recipe))
            else:
                raw = self._raw(session, what, name)
            if raw is None or offset >= len(raw):
                kind = queue.popleft()[1]
                if raw is None:
                    absent = Absent(objects=(ObjectName(name),)) if kind == OBJECT else Absent(modules=(Sha256(name),))
                    return self._count(peer, encode_message(absent))
                continue
            piece = raw[offset : offset + SYNC_PART_BYTES]
            if offset == 0:
                self.counted[peer].objects_sent[name] += 1
            if offset + len(piece) == len(raw):
                queue.popleft()
            else:
                queue[0] = session, queue[0][1], name, offset + len(piece)
            part = Part(what=what, name=name, offset=offset, total=len(raw), content=piece)
            return self._count(peer, encode_message(part))
        return None

    # Questions

    def fresh(self, session: SessionId, device: DeviceId) -> bool:
        """Whether all that is here of a session is durable on `device`, as it said."""
        return session in self.machine.digests and self.machine.is_level(device, session)

    def acknowledged(self, session: SessionId) -> dict[DeviceId, CheckpointId]:
        """Return by peer the newest checkpoint of a session that it has with its content, as far as it said."""
        found = {peer: known[session] for peer, known in self.known.items() if session in known}
        level = [peer for peer in self.machine.peers if self.fresh(session, peer)]
        main = self.intake.view(session).main if level else None
        if main is not None:
            found.update(dict.fromkeys(level, CheckpointId(main)))
        return found

    # Carrying out

    def _happens(self, event: Event) -> Out:
        """Give the machine an event, do what it says, and return what is left to do for who has the network."""
        outer, self._out = self._out, Out()
        try:
            self._feed(event)
            return self._out
        finally:
            self._out = outer
            self._openings.trim()

    def _feed(self, event: Event) -> None:
        for output in self.machine.handle(event, self._now_ms()):
            self._carry(output)

    def _carry(self, output: Output) -> None:
        match output:
            case happenings.Load(session=session):
                seen = self.index.seen(self.store, session)
                self._feed(happenings.Loaded(session=session, after=seen.after, lacking=seen.heads_lacking))
            case happenings.Send(peer=peer, message=message):
                self._send(peer, message)
                for name in message.objects if isinstance(message, Want) else ():
                    if here := self._parts.begun(name):  # A cut came in the middle of it.
                        self._send(peer, Begin(what=OBJECT, name=name, offset=here))
            case happenings.SendStatements(peer=peer, session=session, ids=ids, eager=eager):
                self._send_statements(peer, session, ids, eager=eager)
            case happenings.SendContent(peer=peer, session=session, objects=objects, modules=modules):
                queue = self._queues.setdefault(peer, deque())
                queue.extend((session, MODULE, module, 0) for module in modules)
                queue.extend((session, OBJECT, name, 0) for name in objects)
                self._out.content.add(peer)
            case happenings.Take(peer=peer, message=message):
                self._take(peer, message)
            case happenings.Lacking(peer=peer, names=names):
                wanted = self.sealed.wanted(names)
                objects = tuple(map(ObjectName, wanted)) if self._only_stores else ()
                letters = () if self._only_stores else tuple(map(Sha256, wanted))
                missing = happenings.Missing(session=NO_SESSION, objects=objects, modules=letters, source=peer)
                self._feed(missing)
            case happenings.Answering(peer=peer):
                self._out.answered.add(peer)
            case happenings.Acknowledged():
                self._acknowledged(output)
            case happenings.Cut(peer=peer, why=why):
                log.warning("sync: the link to device %s ends: %s", peer.hex()[:16], why)
                self._queues.pop(peer, None)
                self._out.cuts.append((peer, why))

    def _send(self, peer: DeviceId, message: Message) -> None:
        self._out.messages.append((peer, self._count(peer, encode_message(message))))

    def _count(self, peer: DeviceId, raw: bytes) -> bytes:
        self.counted.setdefault(peer, Counted()).sent += len(raw)
        return raw

    # What goes out

    def _send_statements(self, peer: DeviceId, session: SessionId, ids: Iterable[StatementId], *, eager: bool) -> None:
        store = self.store
        found = [one for id in ids if (one := store.statements.get(session, id)) is not None]
        checkpoints = [CheckpointId(one.id) for one in found if isinstance(one.body, CheckpointBody)]
        self._tell_keys(peer, session, again=False)
        self._tell_had(peer, session, [one.id for one in found])
        entries: list[Entry] = []
        bare: list[CheckpointId] = []
        objects: list[ObjectName] = []
        for one in in_order(found):
            entry, brought = self._entry(CheckpointId(one.id), one.raw, isinstance(one.body, CheckpointBody))
            entries.append(entry)
            if brought is not None:
                objects += brought
                bare.append(CheckpointId(one.id))
        self.machine.expects_content(peer, session, bare)
        along: list[bytes] = []
        if eager and self.eager and len(checkpoints) <= 4:
            along = self._along(peer, session, objects)
        batch: list[Entry] = []
        size = 0
        for entry in entries:
            size += len(entry.raw) + len(entry.payload or b"")
            if batch and (size > STATEMENTS_BYTES or len(batch) >= SYNC_STATEMENTS_MESSAGE_MAX):
                self._send(peer, Statements(session=session, entries=tuple(batch)))
                batch, size = [], len(entry.raw) + len(entry.payload or b"")
            batch.append(entry)
        if batch:
            self._send(peer, Statements(session=session, entries=tuple(batch), objects=tuple(along)))

    def _entry(self, id: CheckpointId, raw: bytes, checkpoint: bool) -> tuple[Entry, list[ObjectName] | None]:
        """One statement as it goes out; with the objects that a checkpoint brought, if its content is here."""
        if not checkpoint:
            return Entry(raw=raw), None
        try:
            kept = self.store.checkpoint(id)
        except MissingError:
            awaited = self.store.arrived.awaited(id)
            return Entry(raw=raw, payload=None if awaited is None else awaited.raw), None
        entry = Entry(raw=raw, payload=kept.payload.encoded(), thinned=kept.thinned)
        return entry, None if kept.thinned else list(kept.objects)

    def _along(self, peer: DeviceId, session: SessionId, names: list[ObjectName]) -> list[bytes]:
        """The objects that go along with the checkpoint that brought them; recipes go before it."""
        found: list[bytes] = []
        recipes: list[Message] = []
        for name in names:
            if (recipe := self.recipes.recipe(peer, session, name)) is not None:
                recipes.append(recipe)
                continue
            raw = self.store.objects.raw(name)
            if raw is None:
                return []
            found.append(raw)
        if sum(map(len, found)) > SYNC_EAGER_BYTES_MAX or len(recipes) > EAGER_OBJECTS_MAX // 2:
            return []
        for one in recipes:
            self._send(peer, one)
        for raw in found:
            self.counted.setdefault(peer, Counted()).objects_sent[object_name(raw)] += 1
        return found

    def _tell_keys(self, peer: DeviceId, session: SessionId, *, again: bool) -> None:
        """Give a peer the keys of a session's family, unless it was given as many; `again`: it asks."""
        store = self.store
        member = members(store, self._me).get(peer)
        if member is None or not member.full:
            return
        try:
            family = store.family(session)
        except MissingError:
            return
        count = len(family.epochs) + 1
        if not again and store.arrived.keys_told(peer, family.id) >= count:
            return
        wrapped = family.wrapped(member.public, self._me.seed, store.random)
        self._send(
            peer,
            Keys(
                session=session,
                family=family.id,
                epoch=family.epoch,
                wrapped=tuple(one.encoded() for one in wrapped),
            ),
        )
        with store.transaction():
            store.arrived.tell_keys(peer, family.id, count)

    def _tell_had(self, peer: DeviceId, session: SessionId, ids: Collection[StatementId]) -> None:
        """Say to a peer that it had a token of which this device has an older acknowledgement."""
        known = self.store.arrived.had(session, peer)
        now = self.machine.peers[peer].incarnation if peer in self.machine.peers else None
        before = frozenset().union(*(records for one, records in known.items() if one != now))
        if before & set(ids):
            self._send(peer, had(session, before & set(ids)))

    def _raw(self, session: SessionId, what: int, name: bytes) -> bytes | None:
        """The bytes of something that a peer asked for; None if it is not here."""
        if what == MODULE:
            try:
                sealed = self.content.sealed_module(Sha256(name), self.store.session(session).family)
                return None if sealed is None else b"".join(sealed)
            except (MissingError, DamagedStoreError):
                return None
        if self._read is None or self._read[0] != name:  # A large one is read once for all of its parts.
            raw = self.store.objects.raw(ObjectName(name))
            self._read = None if raw is None else (name, raw)
        return None if self._read is None else self._read[1]

    # What comes in

    def _take(self, peer: DeviceId, message: Message) -> None:
        try:
            match message:
                case Keys():
                    self.intake.keys(peer, message)
                    waiting = [one for one in self._stashed if one[1].session == message.session]
                    for source, one in waiting:
                        self._stashed.remove((source, one))
                        self._take_statements(source, one)
                case AskKeys(session=session):
                    if peer in self.machine.peers and session not in self.machine.peers[peer].left_out:
                        self._tell_keys(peer, session, again=True)
                case Statements():
                    self._take_statements(peer, message)
                case Part():
                    self._take_part(peer, message)
                case Rebuild():
                    self._take_recipe(peer, message)
                case Begin(what=what, name=name, offset=offset):
                    self._go_on_with(peer, what, name, offset)
                case Had(session=session, records=records):
                    with self.store.transaction():
                        denials.deny_tokens(self.store, session, records)
                case _:
                    self._feed(happenings.Broke(peer=peer, why="it says what has no place in sync"))
        except FullStoreError as error:
            log.warning("sync: nothing more is taken: %s", error)
            self._pending.clear()
            self._pending_bytes = 0
            self._feed(happenings.Hold(why=FULL))
        except FormatError as error:
            self._feed(happenings.Broke(peer=peer, why=str(error)))

    def _take_statements(self, peer: DeviceId, message: Statements) -> None:
        for raw in message.objects:
            SealedObject(raw)
        if self._eager:
            message = Statements(
                session=message.session,
                entries=message.entries,
                objects=(*message.objects, *self._eager.values()),
            )
            self._eager.clear()
        own: list[Mapping[StatementId, StatementId | None]] = []
        try:
            taken = self.intake.statements(peer, message, lambda: self._catch_up(message.session, own))
        except NoKeys:
            self._stashed.append((peer, message))
            self._send(peer, AskKeys(session=message.session))
            return
        for raw in message.objects:
            self._feed(happenings.Arrived(name=object_name(raw), source=peer))
        self._took(taken, peer, own)

    def _catch_up(self, session: SessionId, own: list[Mapping[StatementId, StatementId | None]]) -> None:
        """Find what others on this device added to a session; within the transaction that adds to it."""
        if self.index.is_behind(self.store, session) and self.index.holds(session):
            own.append(self.index.news(self.store, session))

    def _took(
        self,
        taken: Taken,
        source: DeviceId | None,
        own: Sequence[Mapping[StatementId, StatementId | None]] = (),
    ) -> None:
        session = taken.session
        for fresh in own:
            if fresh:
                self._feed(self._changed(session, fresh, None, taken.revision))
        if taken.removed:
            self.index.reread(session)
        else:
            seen = self.index.seen(self.store, session)
            with_content = set(self.store.checkpoint_ids(session)) if seen.bare or taken.fresh else set()
            for id in taken.fresh:
                signed = self.store.statements.get(session, id)
                if signed is not None and isinstance(signed.body, CheckpointBody) and id not in with_content:
                    seen.bare[CheckpointId(id)] = None
            for one in [one for one in seen.bare if one in with_content]:
                del seen.bare[one]
            self.index.add(session, taken.fresh)
        if taken.fresh or taken.whole or taken.durable or taken.removed:
            self._feed(self._changed(session, taken.fresh, source, taken.revision, taken))
        if taken.fresh or taken.whole:
            self._out.changed.add(session)
        if taken.fenced:
            self._out.fenced.add(session)
        self._want(session, source)

    def _want(self, session: SessionId, source: DeviceId | None) -> None:
        """Ask for what is missing of a session."""
        seen = self.index.seen(self.store, session)
        if not seen.bare:
            return
        objects, modules = self.intake.wanted(session, list(reversed(seen.bare)))
        objects = [name for name in objects if name not in self._pending]
        told = {digest: name for name, (digest, of, _) in self._module_of.items() if of == session}
        objects += [ObjectName(told[module]) for module in modules if module in told]
        modules = [module for module in modules if module not in told]
        if objects or modules:
            self._feed(
                happenings.Missing(session=session, objects=tuple(objects), modules=tuple(modules), source=source)
            )

    def _changed(
        self,
        session: SessionId,
        fresh: Mapping[StatementId, StatementId | None],
        source: DeviceId | None,
        revision: bytes,
        taken: Taken | None = None,
    ) -> Changed:
        seen = self.index.seen(self.store, session)
        lacking: tuple[CheckpointId, ...] = ()
        if seen.bare:
            heads = self.intake.view(session).heads
            lacking = tuple(sorted(one for one in seen.bare if one in heads))
        digest = self.index.settle(self.store, session, lacking, revision)
        return Changed(
            session=session,
            digest=digest,
            fresh=fresh,
            source=source,
            whole=() if taken is None else taken.whole,
            lacking=lacking,
            durable=() if taken is None else taken.durable,
        )

    def _take_part(self, peer: DeviceId, part: Part) -> None:
        wanted = self.machine.wants.asked(part.name) == peer
        if not wanted:
            self._unasked[peer] += len(part.content)
            if self._unasked[peer] > UNASKED_BYTES_MAX:
                raise FormatError("it gives what it was not asked for, without end")
            return
        whole = self._parts.add(part)
        if whole is None:
            return
        session = self.machine.wants.session(part.name)
        assert session is not None
        self._weigh(session, len(whole))
        if self.machine.peers[peer].sealed and (self._only_stores or part.what != OBJECT):
            self._take_sealed(peer, part.what, part.name, whole)
            return
        if part.what == MODULE:
            self._pending_modules[Sha256(part.name)] = whole, peer
        elif part.what == OBJECT:
            self._insist_on_object(ObjectName(part.name), whole)
            self._pending[ObjectName(part.name)] = whole, peer
        else:
            raise FormatError("it gives something else than it was asked for")
        self._pending_bytes += len(whole)
        self._flush_if_due(peer)

    def _flush_if_due(self, peer: DeviceId) -> None:
        here = len(self._pending) + len(self._pending_modules)
        if self._pending_bytes >= FLUSH_BYTES or self.machine.wants.waits_for(peer) <= here:
            self._flush()

    @property
    def _only_stores(self) -> bool:
        own = members(self.store, self._me).get(self._me.id)
        return own is not None and own.now is Role.STORE_ONLY

    def _take_sealed(self, peer: DeviceId, what: int, name: bytes, raw: bytes) -> None:
        """Sealed bytes came: kept as they are at a device that only stores, opened at any other."""
        store = self.store
        taken: list[Taken] = []
        with store.transaction():
            store.insist_on_room(len(raw))
            if self._only_stores:
                self.sealed.keep(what, name, raw)
            elif hashlib.sha256(raw).digest() != name:
                raise FormatError("sealed bytes are not those of their name")
            elif what == MODULE and name in self._module_of:
                module, session, epoch = self._module_of[name]
                self.content.take_module(module, store.session(session).family, epoch, raw)
                taken = [self.intake.content(session, list(self.index.seen(store, session).bare))]
            elif what == LETTER:
                taken = self._read_letter(name, raw)
        self._feed(happenings.Arrived(name=name, source=peer))
        for one in taken:
            self._took(one, peer)
        self._flush_if_due(peer)
        if self._only_stores and not self.machine.wants.waits_for(peer):
            self._feed(happenings.Piled(pile=self.sealed.pile(())))

    def _read_letter(self, name: bytes, raw: bytes) -> list[Taken]:
        """Take in what a letter says, and others that waited for it.

        Who keeps a letter cannot know what is in it, so nothing in it costs the link.
        """
        found: list[Taken] = []
        waiting = {name: raw, **self._letters}
        self._letters = {}
        grew = True
        while grew:
            grew = False
            for one, content in list(waiting.items()):
                try:
                    letter = self.sealed.read(content)
                    taken = None if letter is None or letter.by == self._me.id else self.intake.letter(letter)
                except (FormatError, NoKeys) as error:
                    log.warning("sync: a letter is not read: %s", error)
                    letter = taken = None
                if taken is not None and not self.intake.has_session(taken.session) and not taken.removed:
                    continue  # An earlier one has the record that created it.
                del waiting[one]
                self.store.piles.note_read(one)
                if letter is not None and taken is not None:
                    grew = True
                    found.append(taken)
                    for module, ref in letter.modules:
                        self._module_of[ref.name] = module, letter.session, ref.epoch
        self._letters = dict(list(waiting.items())[-STASHED_MAX:])
        return found

    @staticmethod
    def _insist_on_object(name: ObjectName, raw: bytes) -> None:
        if object_name(raw) != name:
            raise FormatError("an object is not the one of its name")
        SealedObject(raw)

    def _weigh(self, session: SessionId, size: int) -> None:
        """Stop at the size that a session may have here; who sends is told, and its session goes on."""
        self._bytes_of[session] += size
        most = self._session_bytes_max
        if most is not None and self._bytes_of[session] > most:
            self._feed(happenings.Hold(why=f"it takes at most {most} bytes of one session", session=session))

    def _take_recipe(self, peer: DeviceId, message: Rebuild) -> None:
        raw = self.recipes.rebuilt(message)
        name = message.name
        wanted = self.machine.wants.asked(name) == peer
        if raw is None:
            self._send(peer, Absent(objects=(name,)))  # In this direction: send whole ones from now on.
            self.machine.wants.again(name)
            self._feed(happenings.Tick())
            return
        if wanted:
            self._pending[name] = raw, peer
            self._pending_bytes += len(raw)
            self._flush()
        elif len(self._eager) < EAGER_OBJECTS_MAX:
            self._eager[name] = raw

    def _flush(self) -> None:
        """Keep the objects that came, in one transaction, and the checkpoints that are whole with them."""
        if not self._pending and not self._pending_modules:
            return
        objects, modules = self._pending, self._pending_modules
        self._pending, self._pending_modules, self._pending_bytes = {}, {}, 0
        sessions: dict[SessionId, DeviceId] = {}
        store = self.store
        try:
            with store.transaction():
                store.insist_on_room(sum(len(raw) for raw, _ in objects.values()))
                for name, (raw, peer) in objects.items():
                    store.objects.put(raw)
                    if (session := self.machine.wants.session(name)) is not None:
                        sessions[session] = peer
                for module, (raw, peer) in modules.items():
                    if (session := self.machine.wants.session(module)) is not None:
                        sessions[session] = peer
                        self.content.take_module(module, store.session(session).family, raw[:32], raw[32:])
                owned: dict[SessionId, list[Mapping[StatementId, StatementId | None]]] = {}
                taken = []
                for session in sessions:
                    own = owned.setdefault(session, [])
                    bare = list(self.index.seen(store, session).bare)
                    taken.append(self.intake.content(session, bare, partial(self._catch_up, session, own)))
        except FullStoreError as error:
            log.warning("sync: nothing more is taken: %s", error)
            self._feed(happenings.Hold(why=FULL))
            for dropped in (*objects, *modules):
                self.machine.wants.again(dropped)
            return
        arrived: list[tuple[bytes, DeviceId]] = [(name, peer) for name, (_, peer) in objects.items()]
        for came, peer in [*arrived, *((module, peer) for module, (_, peer) in modules.items())]:
            self._feed(happenings.Arrived(name=came, source=peer))
        for one in taken:
            self._took(one, sessions[one.session], owned[one.session])

    def _go_on_with(self, peer: DeviceId, what: int, name: bytes, offset: int) -> None:
        queue = self._queues.get(peer, deque())
        for at, (session, kind, known, _) in enumerate(queue):
            if (kind, known) == (what, name):
                queue[at] = session, kind, known, offset
                return

    def _acknowledged(self, output: happenings.Acknowledged) -> None:
        peer, session = output.peer, output.session
        store = self.store
        if session is None:
            self._out.acknowledged.update(self.machine.digests)
            return
        self._out.acknowledged.add(session)
        granted = [
            id
            for id in output.statements
            if (one := store.statements.get(session, id)) is not None and _grants(one.body, peer)
        ]
        incarnation = self.machine.peers[peer].incarnation if peer in self.machine.peers else None
        news = bool(output.whole) and peer not in store.arrived.knowing(session)
        if news or (granted and incarnation is not None):
            with store.transaction():
                if news:
                    store.arrived.knows(session, peer)
                if granted and incarnation is not None:
                    store.arrived.note_had(session, peer, incarnation, granted)
        for checkpoint in output.whole:
            self.known.setdefault(peer, {})[session] = checkpoint

    def _has_room(self) -> bool:
        try:
            self.store.insist_on_room(FLUSH_BYTES)
        except UserError:
            return False
        return True


def _grants(body: object, device: DeviceId) -> bool:
    """Whether a statement gives a device the session."""
    match body:
        case ReleaseBody(to=to):
            return to == device
        case TakeoverBody(by=by) | CreateBody(by=by):
            return by == device
        case _:
            return False


def _joined(one: Out, other: Out) -> Out:
    """Put what is to be done together, in order."""
    one.messages += other.messages
    one.content |= other.content
    one.cuts += other.cuts
    one.answered |= other.answered
    one.fenced |= other.fenced
    one.changed |= other.changed
    one.acknowledged |= other.acknowledged
    return one
