"""Statements that come in, and what follows from what was taken in: what is told to peers, what is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from hhd.node.sync.held import Held
from hhd.node.sync.intake import NoKeys, Taken
from hhd.node.sync.talk import Talk
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, EpochId, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.objects import SealedObject, object_name
from hhd_protocol.sync.events import Arrived, Broke, Changed, Missing, Tick
from hhd_protocol.sync.messages import AskKeys, Statements

STASHED_MAX = 64
"""Messages that wait for the keys of their session: they come in the next round otherwise."""

Fresh = Mapping[StatementId, StatementId | None]
"""Statements that are new here, each with the one that its signer signed before it."""


class StatementsIn:
    """Takes statements into `held`; `begun`: names of objects that came and are not kept yet."""

    def __init__(self, held: Held, talk: Talk, begun: Collection[ObjectName]) -> None:
        self._held, self._talk, self._begun = held, talk, begun
        self._stashed: deque[tuple[DeviceId, Statements]] = deque(maxlen=STASHED_MAX)
        self.modules: dict[bytes, tuple[Sha256, SessionId, EpochId]] = {}
        """Of sealed modules that letters told of, by their names."""
        self.at_work: set[SessionId] = set()
        """Sessions that were removed everywhere and are kept, since they were at work here when that was heard."""

    def take(self, peer: DeviceId, message: Statements) -> None:
        """Take statements, with the objects that came along."""
        self.insist_on_objects(message)
        own: list[Fresh] = []
        try:
            taken = self._held.intake.statements(peer, message, lambda: self.catch_up(message.session, own))
        except NoKeys:
            self.wait_for_keys(peer, message)
            return
        for raw in message.objects:
            self._talk.feed(Arrived(name=object_name(raw), source=peer))
        self.took(taken, peer, own)

    @staticmethod
    def insist_on_objects(message: Statements) -> None:
        """Raise FormatError unless what came along are sealed objects."""
        for raw in message.objects:
            SealedObject(raw)

    def wait_for_keys(self, peer: DeviceId, message: Statements) -> None:
        """Set a message aside until the keys of its session come, and ask for those."""
        self._stashed.append((peer, message))
        self._talk.send(peer, AskKeys(session=message.session))

    def keys_came(self, session: SessionId) -> None:
        """Take what waited for the keys of a session."""
        for source, one in [one for one in self._stashed if one[1].session == session]:
            self._stashed.remove((source, one))
            try:
                self.take(source, one)
            except FormatError as error:  # Who gave the keys, which may be another one, has not said that.
                self._talk.feed(Broke(peer=source, why=str(error)))

    def catch_up(self, session: SessionId, own: list[Fresh]) -> None:
        """Find what others on this device added to a session; within the transaction that adds to it."""
        index, store = self._held.index, self._held.store
        if index.is_behind(store, session) and index.holds(session):
            own.append(index.news(store, session))

    def not_told(self, own: Mapping[SessionId, Sequence[Fresh]], *, always: bool = False) -> None:
        """What `catch_up` found is told by nobody: have it found by comparing, when its session is looked at again."""
        for session, found in own.items():
            if always or any(found):
                self._held.index.look_again(session)

    def took(self, taken: Taken, source: DeviceId | None, own: Sequence[Fresh] = ()) -> None:
        """Tell of what was taken in, and ask for what it lacks."""
        session, index, store = taken.session, self._held.index, self._held.store
        for fresh in own:
            if fresh:
                self._talk.feed(self.changed(session, fresh, None, taken.revision))
        if taken.removed:
            index.reread(session)
            if self._held.intake.has_session(session):
                self.at_work.add(session)
        else:
            seen = index.seen(store, session)
            with_content = set(store.checkpoint_ids(session)) if seen.bare else set()
            for id in taken.fresh:
                raw = store.statements.raw(id)  # None: its record lies with its content, if it is no tombstone.
                signed = None if raw is None else store.statements.get(session, id)
                if signed is not None and isinstance(signed.body, CheckpointBody) and store.record(id) is None:
                    seen.bare[CheckpointId(id)] = None
            for one in [one for one in seen.bare if one in with_content]:
                del seen.bare[one]
            index.add(session, taken.fresh)
        if taken.fresh or taken.whole or taken.durable or taken.removed:
            self._talk.feed(self.changed(session, taken.fresh, source, taken.revision, taken))
        if taken.fresh or taken.whole:
            self._talk.out.changed.add(session)
        if taken.fenced:
            self._talk.out.fenced.add(session)
        if taken.outlived and source in self._talk.machine.peers:
            self._ask_again(session, source)
        self._want(session, source)

    def _ask_again(self, session: SessionId, source: DeviceId) -> None:
        """Have a peer give all of a session once more; keys go with the last session of their family."""
        self._talk.send(source, AskKeys(session=session))
        self._talk.machine.peers[source].asked_ms = -(10**9)
        self._talk.feed(Tick())

    def changed(
        self, session: SessionId, fresh: Fresh, source: DeviceId | None, revision: bytes, taken: Taken | None = None
    ) -> Changed:
        """What the machine is told of a session that is otherwise here than before."""
        index, store = self._held.index, self._held.store
        seen = index.seen(store, session)
        lacking: tuple[CheckpointId, ...] = ()
        if seen.bare:
            heads = self._held.intake.view(session).heads
            lacking = tuple(sorted(one for one in seen.bare if one in heads))
        digest = index.settle(store, session, lacking, revision)
        return Changed(
            session=session,
            digest=digest,
            fresh=fresh,
            source=source,
            whole=() if taken is None else taken.whole,
            lacking=lacking,
            durable=() if taken is None else taken.durable,
            removed=not self._held.intake.has_session(session) if taken is None else taken.removed,
        )

    def _want(self, session: SessionId, source: DeviceId | None) -> None:
        """Ask for what is missing of a session."""
        seen = self._held.index.seen(self._held.store, session)
        if not seen.bare:
            return
        objects, modules = self._held.intake.wanted(session, list(reversed(seen.bare)))
        objects = [name for name in objects if name not in self._begun]
        told = {digest: name for name, (digest, of, _) in self.modules.items() if of == session}
        objects += [ObjectName(told[module]) for module in modules if module in told]
        modules = [module for module in modules if module not in told]
        if objects or modules:
            self._talk.feed(Missing(session=session, objects=tuple(objects), modules=tuple(modules), source=source))
