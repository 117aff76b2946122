"""What goes out to peers of sessions: their statements, and the content that was asked for, a part at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from hhd.node.sync.held import Held
from hhd.node.sync.keys import KeysTold
from hhd.node.sync.talk import Talk
from hhd.store.errors import DamagedStoreError, MissingError
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId, Sha256
from hhd_protocol.limits import SYNC_EAGER_BYTES_MAX, SYNC_PART_BYTES, SYNC_STATEMENTS_MESSAGE_MAX
from hhd_protocol.lineage import Signed
from hhd_protocol.objects import object_name
from hhd_protocol.sync import encode_message
from hhd_protocol.sync.events import SendContent, SendStatements
from hhd_protocol.sync.messages import MODULE, OBJECT, VERSION_BEFORE, Absent, Begin, Entry, Message, Part, Statements
from hhd_protocol.sync.order import in_order

STATEMENTS_BYTES = 600 * 1024
"""Of statements in one message."""
EAGER_OBJECTS_MAX = 64
"""Objects that were made again out of recipes and wait for the checkpoint that brings them."""
EAGER_CHECKPOINTS_MAX, EAGER_IN_ALL_BYTES_MAX = 64, 16 * SYNC_EAGER_BYTES_MAX
"""Checkpoints that go with what they brought where many were made at once: what is to be sent waits in memory."""


@dataclass(frozen=True, kw_only=True)
class _Small:
    """What goes along with a checkpoint: `recipes` before it, for the objects that are not in `objects`."""

    objects: list[bytes]
    recipes: list[Message]

    @property
    def size(self) -> int:
        """How many bytes go in the message of the checkpoint."""
        return sum(map(len, self.objects))


class Serving:
    """Sends what `held` has; what is sent is read when its turn comes."""

    def __init__(self, held: Held, talk: Talk, keys: KeysTold) -> None:
        self._held, self._talk, self._keys = held, talk, keys
        self._queues: dict[DeviceId, deque[tuple[SessionId, int, bytes, int]]] = {}
        self._read: tuple[bytes, bytes] | None = None
        self.eager = True
        """Whether a step's objects go along with it unasked; not while pages are coalesced."""

    def linked(self, peer: DeviceId) -> None:
        """A link is up: what was asked for on the one before is asked for again."""
        self._queues.setdefault(peer, deque()).clear()

    def lost(self, peer: DeviceId) -> None:
        """The link is gone, or ends."""
        self._queues.pop(peer, None)

    def rest(self) -> None:
        """Keep no content in memory."""
        self._read = None

    # Statements

    def statements(self, output: SendStatements) -> None:
        """Send statements, with the content of few checkpoints along where that is `eager`."""
        peer, session, store = output.peer, output.session, self._held.store
        self._keys.tell_keys(peer, session, again=False)
        with store.snapshot():  # One reading, instead of a lock of the file for each row.
            found = [one for id in output.ids if (one := store.statements.get(session, id)) is not None]
            self._keys.tell_had(peer, session, [one.id for one in found])
            self._send_found(output, found)

    def _send_found(self, output: SendStatements, found: list[Signed]) -> None:
        """Send statements in order; checkpoints with what they brought, as long as that is small and little in all."""
        peer, session = output.peer, output.session
        eager = output.eager and self.eager
        whole = not self._talk.machine.peers[peer].keeps_up(session)
        entries: list[Entry] = []
        along: list[bytes] = []
        count = in_all = 0
        for one in in_order(found):
            id = CheckpointId(one.id)
            entry, brought = self._entry(id, one.raw, isinstance(one.body, CheckpointBody))
            if brought is not None:
                count += 1
                small = None
                if eager and count <= EAGER_CHECKPOINTS_MAX:
                    small = self._small(peer, session, brought, id, whole=whole)
                in_all += 0 if small is None else small.size
                eager = small is not None and in_all <= EAGER_IN_ALL_BYTES_MAX  # The next one stands on this one.
                if small is not None and eager:
                    full = sum(map(len, along)) + small.size > SYNC_EAGER_BYTES_MAX
                    if entries and (full or small.recipes):  # A recipe needs the parent, which may be among them.
                        self._send_entries(peer, session, entries, along)
                        entries, along = [], []
                    for recipe in small.recipes:
                        self._talk.send(peer, recipe)
                    for raw in small.objects:
                        self._talk.of(peer).objects_sent[object_name(raw)] += 1
                    along += small.objects
                self._talk.machine.expects_content(peer, session, [id], along=eager)
            elif along and len(entries) >= SYNC_STATEMENTS_MESSAGE_MAX // 2:  # They stay with their checkpoints.
                self._send_entries(peer, session, entries, along)
                entries, along = [], []
            entries.append(entry)
        self._send_entries(peer, session, entries, along)

    def _send_entries(self, peer: DeviceId, session: SessionId, entries: Iterable[Entry], along: list[bytes]) -> None:
        batch: list[Entry] = []
        size = 0
        for entry in entries:
            size += len(entry.raw) + len(entry.payload or b"")
            if batch and (size > STATEMENTS_BYTES or len(batch) >= SYNC_STATEMENTS_MESSAGE_MAX):
                self._talk.send(peer, Statements(session=session, entries=tuple(batch)))
                batch, size = [], len(entry.raw) + len(entry.payload or b"")
            batch.append(entry)
        if batch:
            self._talk.send(peer, Statements(session=session, entries=tuple(batch), objects=tuple(along)))

    def _entry(self, id: CheckpointId, raw: bytes, checkpoint: bool) -> tuple[Entry, list[ObjectName] | None]:
        """One statement as it goes out; with the objects that a checkpoint brought, if its content is here."""
        if not checkpoint:
            return Entry(raw=raw), None
        store = self._held.store
        try:
            kept = store.checkpoint(id)
        except MissingError:
            awaited = store.arrived.awaited(id)
            return Entry(raw=raw, payload=None if awaited is None else awaited.raw), None
        entry = Entry(raw=raw, payload=kept.payload.encoded(), thinned=kept.thinned)
        return entry, None if kept.thinned else list(kept.objects)

    def _small(
        self, peer: DeviceId, session: SessionId, names: Iterable[ObjectName], brought_by: CheckpointId, *, whole: bool
    ) -> _Small | None:
        """What a checkpoint brought, to go along with it; None where it is too much for that, or not here.

        `whole`: without recipes, since the peer has not got what was before.
        """
        found: list[bytes] = []
        recipes: list[Message] = []
        knows = self._talk.machine.peers[peer].version >= VERSION_BEFORE
        for name in names:
            recipe = None if whole else self._held.recipes.recipe(peer, session, name, brought_by if knows else None)
            if recipe is not None:
                recipes.append(recipe)
                continue
            raw = self._held.store.objects.raw(name)
            if raw is None:
                return None
            found.append(raw)
        small = _Small(objects=found, recipes=recipes)
        return small if small.size <= SYNC_EAGER_BYTES_MAX and len(recipes) <= EAGER_OBJECTS_MAX // 2 else None

    # Content

    def content(self, output: SendContent) -> None:
        """Content is to go, after what is to go already."""
        queue = self._queues.setdefault(output.peer, deque())
        queue.extend((output.session, MODULE, module, 0) for module in output.modules)
        queue.extend((output.session, OBJECT, name, 0) for name in output.objects)
        self._talk.out.content.add(output.peer)

    def go_on_with(self, peer: DeviceId, message: Begin) -> None:
        """A peer has the beginning of something already."""
        queue = self._queues.get(peer, deque())
        for at, (session, kind, known, _) in enumerate(queue):
            if (kind, known) == (message.what, message.name):
                queue[at] = session, kind, known, message.offset
                return

    def next_part(self, peer: DeviceId) -> bytes | None:
        """Return the next part of what a peer asked for; None if there is nothing."""
        queue = self._queues.get(peer)
        talk, held = self._talk, self._held
        while queue:
            session, what, name, offset = queue[0]
            one = talk.machine.peers[peer]
            if session in one.left_out:  # Since it was asked for: it is kept back from the peer now.
                raw = None
            elif one.sealed:
                what, raw = held.sealed.raw(name, letter=what == MODULE) or (what, None)
            elif (
                offset == 0
                and what == OBJECT
                and (recipe := held.recipes.recipe(peer, session, ObjectName(name))) is not None
            ):
                queue.popleft()
                return talk.count(peer, encode_message(recipe))
            else:
                raw = self._raw(session, what, name)
            if raw is None or offset >= len(raw):
                kind = queue.popleft()[1]
                if raw is None:
                    talk.machine.has_not(peer, name)
                    absent = Absent(objects=(ObjectName(name),)) if kind == OBJECT else Absent(modules=(Sha256(name),))
                    return talk.count(peer, encode_message(absent))
                continue
            piece = raw[offset : offset + SYNC_PART_BYTES]
            if offset == 0:
                talk.of(peer).objects_sent[name] += 1
            if offset + len(piece) == len(raw):
                queue.popleft()
            else:
                queue[0] = session, queue[0][1], name, offset + len(piece)
            part = Part(what=what, name=name, offset=offset, total=len(raw), content=piece)
            return talk.count(peer, encode_message(part))
        return None

    def _raw(self, session: SessionId, what: int, name: bytes) -> bytes | None:
        """The bytes of something that a peer asked for; None if it is not here."""
        store = self._held.store
        if what == MODULE:
            try:
                sealed = self._held.content.sealed_module(Sha256(name), store.session(session).family)
                return None if sealed is None else b"".join(sealed)
            except (MissingError, DamagedStoreError):
                return None
        if self._read is None or self._read[0] != name:  # A large one is read once for all of its parts.
            raw = store.objects.raw(ObjectName(name))
            self._read = None if raw is None else (name, raw)
        return None if self._read is None else self._read[1]
