"""What a peer is told of a session beside its statements: the keys of its family, and the tokens that it had."""

from __future__ import annotations

from collections.abc import Collection

from hhd.node import denials
from hhd.node.members import members
from hhd.node.sync.held import Held
from hhd.node.sync.talk import Talk
from hhd.store.errors import MissingError
from hhd_protocol.bodies import CreateBody, ReleaseBody, TakeoverBody
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId
from hhd_protocol.sync.events import Acknowledged
from hhd_protocol.sync.machine import had
from hhd_protocol.sync.messages import Had, Keys


class KeysTold:
    """What the peers of one device were told so far is noted in its store."""

    def __init__(self, held: Held, talk: Talk) -> None:
        self._held, self._talk = held, talk
        self.known: dict[DeviceId, dict[SessionId, CheckpointId]] = {}
        """By peer, the newest checkpoint of each session that it acknowledged with its content, since this began."""

    def tell_keys(self, peer: DeviceId, session: SessionId, *, again: bool) -> None:
        """Give a peer the keys of a session's family, unless it was given as many; `again`: it asks."""
        store, me = self._held.store, self._held.me
        member = members(store, me).get(peer)
        if member is None or not member.full:
            return
        try:
            family = store.family(session)
        except MissingError:
            return
        count = len(family.epochs) + 1
        if not again and store.arrived.keys_told(peer, family.id) >= count:
            return
        wrapped = family.wrapped(member.public, me.seed, store.random)
        self._talk.send(
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

    def tell_had(self, peer: DeviceId, session: SessionId, ids: Collection[StatementId]) -> None:
        """Say to a peer that it had a token of which this device has an older acknowledgement."""
        known = self._held.store.arrived.had(session, peer)
        peers = self._talk.machine.peers
        now = peers[peer].incarnation if peer in peers else None
        before = frozenset().union(*(records for one, records in known.items() if one != now))
        if before & set(ids):
            self._talk.send(peer, had(session, before & set(ids)))

    def had(self, message: Had) -> None:
        """A peer says which tokens this device had: those that it has no more it may not use again."""
        store, session = self._held.store, message.session
        with store.transaction():
            lost = [one for one in message.records if store.statements.get(session, one) is None]
            denials.deny_tokens(store, session, lost)

    def acknowledged(self, output: Acknowledged) -> None:
        """Note what a peer said is durable there."""
        peer, session = output.peer, output.session
        store, machine = self._held.store, self._talk.machine
        if session is None:
            self._talk.out.acknowledged.update(machine.digests)
            return
        self._talk.out.acknowledged.add(session)
        granted = [
            id
            for id in output.statements
            if (one := store.statements.get(session, id)) is not None and _grants(one.body, peer)
        ]
        incarnation = machine.peers[peer].incarnation if peer in machine.peers else None
        news = bool(output.whole) and peer not in store.arrived.knowing(session)
        if news or (granted and incarnation is not None):
            with store.transaction():
                if news:
                    store.arrived.knows(session, peer)
                if granted and incarnation is not None:
                    store.arrived.note_had(session, peer, incarnation, granted)
        for checkpoint in output.whole:
            self.known.setdefault(peer, {})[session] = checkpoint


def _grants(body: object, device: DeviceId) -> bool:
    """Whether a statement gives a device the session."""
    match body:
        case ReleaseBody(to=to):
            return to == device
        case TakeoverBody(by=by) | CreateBody(by=by):
            return by == device
        case _:
            return False
