"""The sync of one device with all of its full peers: what to ask, what to send, what to acknowledge.

It keeps nothing on disk and does nothing itself: events go in, outputs come out in the order in which they are to be
done (what is kept stands before what is said of it). `rounds` compare what two devices have; between rounds each side
tells the other what is new. Content is asked for by `wants`, from one peer at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import SYNC_AGAIN_MS, SYNC_IDS_MAX, SYNC_UNBACKED_MAX, SYNC_WANT_AGAIN_MAX
from hhd_protocol.sync.events import (
    Acknowledged,
    Allowed,
    Arrived,
    Broke,
    Changed,
    Cut,
    Event,
    Heard,
    Hold,
    Linked,
    Loaded,
    Lost,
    Missing,
    Opened,
    Output,
    Piled,
    Send,
    SendContent,
    Take,
    Tick,
    Woke,
)
from hhd_protocol.sync.here import Here
from hhd_protocol.sync.messages import (
    Absent,
    Acknowledge,
    Answered,
    Ask,
    Bare,
    Begin,
    Buckets,
    Compared,
    Differ,
    Entries,
    Had,
    Hello,
    Holding,
    Message,
    Part,
    Statements,
    Want,
)
from hhd_protocol.sync.peer import Peer
from hhd_protocol.sync.rounds import Rounds
from hhd_protocol.sync.wants import NO_SESSION, Wants

_SEALED = (Hello, Buckets, Entries, Differ, Answered, Compared, Want, Absent, Part, Begin, Holding)
"""What is said between a full member and one that only stores."""


class Sync:
    """One device's sync; `handle` takes what happened and returns what to do, in order."""

    def __init__(self, *, incarnation: Incarnation) -> None:
        self.peers: dict[DeviceId, Peer] = {}
        self.wants = Wants()
        self._unpiled: set[SessionId] = set()
        """Sessions that changed since it was looked what there is for who only stores."""
        self.holding: dict[SessionId | None, str] = {}
        """Why no content is taken, of a session or (None) of any."""
        self._here = Here()
        self._rounds = Rounds(self._here, incarnation)

    # What others ask

    @property
    def digests(self) -> dict[SessionId, bytes]:
        """What each session here comes to."""
        return self._here.digests

    def is_level(self, peer: DeviceId, session: SessionId) -> bool:
        """Whether the peer said that all that is here of the session is durable there."""
        one = self.peers.get(peer)
        return one is not None and one.has(session) and not (one.sealed and session in self._unpiled)

    def behind(self, peer: DeviceId) -> int:
        """How many sessions a linked peer does not have as they are here, as far as is known."""
        one = self.peers[peer]
        return sum(1 for session in {*one.apart, *one.sent, *one.bare} if not one.has(session))

    def deadline(self) -> int | None:
        """When to say `Tick`, in ms; None: never."""
        times = [peer.asked_ms + SYNC_AGAIN_MS for peer in self.peers.values()]
        if (at := self.wants.deadline()) is not None:
            times.append(at)
        return min(times, default=None)

    # What happens

    def handle(self, event: Event, now_ms: int) -> list[Output]:
        """Take in one event; `now_ms`: of a clock that never goes back."""
        match event:
            case Heard(peer=peer, message=message):
                if (one := self.peers.get(peer)) is None:
                    return []
                if (why := one.budget.spend(message, now_ms)) is not None:
                    return self._cut(peer, why, now_ms)
                return self._heard(one, message, now_ms)
            case Changed():
                return self._changed(event)
            case Missing():
                wanted = [*((name, False) for name in event.objects), *((name, True) for name in event.modules)]
                self.wants.add(event.session, wanted, event.source)
                return self._ask_for_content(now_ms)
            case Arrived(name=name, source=source):
                self.wants.arrived(name, now_ms)
                if (one := self.peers.get(source)) is not None:
                    one.unbacked = 0
                return self._ask_for_content(now_ms)
            case Loaded():
                self._here.loaded(event)
                return [output for one in list(self.peers.values()) for output in self._here.go_on(one)]
            case Hold(why=why, session=session):
                return self._hold(why, session, now_ms)
            case Tick():
                return self._tick(now_ms)
            case Linked() | Lost() | Allowed() | Broke():
                return self._link(event, now_ms)
            case Opened(digests=digests):
                self._here.begin(digests)
                return []
            case Piled(pile=pile):
                self._unpiled.clear()
                if self._here.pile(pile):
                    for one in self.peers.values():
                        one.level &= not one.sealed  # It says anew whether it has all of that.
                return [out for one in self.peers.values() if one.sealed for out in self._hello(one, now_ms)]
            case Woke():
                self._rounds.woke()
                return [output for one in self.peers.values() for output in self._hello(one, now_ms)]

    def _link(self, event: Linked | Lost | Allowed | Broke, now_ms: int) -> list[Output]:
        match event:
            case Linked(peer=peer, left_out=left_out, sealed=sealed):
                self.wants.lost(peer)  # What was asked over a link that this one replaces is not answered on this.
                self.peers[peer] = Peer(id=peer, left_out=left_out, sealed=sealed)
                self.wants.met(peer)
                held = [out for session in self.holding if session is not None for out in self._say_held(session, peer)]
                return [*self._hello(self.peers[peer], now_ms), *held, *self._ask_for_content(now_ms)]
            case Lost(peer=peer):
                self.peers.pop(peer, None)
                self.wants.lost(peer)
                return self._ask_for_content(now_ms)
            case Allowed(peer=peer, left_out=left_out):
                one = self.peers.get(peer)
                if one is None or one.left_out == left_out:
                    return []
                allowed, one.left_out = one.left_out - left_out, left_out
                if not one.sealed:  # It has none of them, as far as is known, until it asked.
                    one.apart.update(allowed & self.digests.keys())
                    one.missed.update(allowed & self.digests.keys())
                return self._hello(one, now_ms)
            case Broke(peer=peer, why=why):
                return self._cut(peer, why, now_ms)

    def _tick(self, now_ms: int) -> list[Output]:
        outputs: list[Output] = []
        for name in self.wants.still(now_ms):
            self.wants.refused(name)
        for one in self.peers.values():
            if now_ms >= one.asked_ms + SYNC_AGAIN_MS:
                outputs += self._hello(one, now_ms)
        return outputs + self._ask_for_content(now_ms)

    def _cut(self, peer: DeviceId, why: str, now_ms: int) -> list[Output]:
        self.peers.pop(peer, None)
        self.wants.lost(peer)
        return [Cut(peer=peer, why=why), *self._ask_for_content(now_ms)]

    def _hello(self, one: Peer, now_ms: int) -> list[Output]:
        return self._rounds.hello(one, self.holding.get(None, ""), now_ms)

    # What is said

    def _heard(self, one: Peer, message: Message, now_ms: int) -> list[Output]:
        if one.sealed and not isinstance(message, _SEALED):
            return self._cut(one.id, "it says more than a device that only stores is told, or may say", now_ms)
        match message:
            case Hello():
                self.wants.met(one.id)
                answer = self._rounds.asked(one, message, self.holding.get(None, ""), now_ms)
                return [*answer, *self._ask_for_content(now_ms)]
            case Buckets():
                return self._rounds.entries(one, message)
            case Entries():
                return self._rounds.differ(one, message)
            case Differ():
                return self._rounds.ask(one, message)
            case Ask():
                return self._rounds.give(one, message)
            case Compared(round=round):
                return self._rounds.compared(one, round, lambda: self._hello(one, now_ms))
            case Answered(round=round):
                return self._rounds.answered(one, round)
            case Want():
                return self._wanted(one, message, now_ms)
            case Absent(objects=objects, modules=modules):
                for name, module in (*((name, False) for name in objects), *((name, True) for name in modules)):
                    if not self.wants.is_asked(name, one.id, module=module):
                        continue  # It answers what was asked before it was known what that is.
                    if self.wants.session(name) == NO_SESSION:
                        self.wants.drop_one(name)  # It is no letter.
                    else:
                        self.wants.refused(name)
                return self._ask_for_content(now_ms)
            case Acknowledge():
                return self._acknowledged(one, message, now_ms)
            case Bare(session=session, checkpoints=checkpoints):
                one.is_bare(session, checkpoints, here=session in self.digests)
                return []
            case Holding(why=why, session=session):
                if why:
                    one.holding[session] = why
                else:
                    one.holding.pop(session, None)
                return []
            case _:
                return self._given(one, message, now_ms)

    def _given(self, one: Peer, message: Message, now_ms: int) -> list[Output]:
        """Something came that is to be kept."""
        match message:
            case Statements(entries=entries):
                one.unbacked += len(entries)
                if one.unbacked > SYNC_UNBACKED_MAX:
                    return self._cut(one.id, "it gives statements without end, and the content of none", now_ms)
            case Part(name=name):
                self.wants.moved(name, now_ms)
            case _:
                pass
        return [Take(peer=one.id, message=message)]

    # What is here

    def _changed(self, event: Changed) -> list[Output]:
        session = event.session
        self._unpiled.add(session)
        if self.digests.get(session) != event.digest:
            for one in self.peers.values():
                one.since.add(session)
        if event.source is None and not event.fresh and self.digests.get(session) != event.digest:
            for one in self.peers.values():  # What is new is not known: peers have it otherwise until they asked.
                one.apart.add(session)
                one.missed.add(session)
        if event.digest is None or event.removed:
            self.wants.drop(session)
            for one in self.peers.values():
                one.forget(session)
        self._here.changed(event)
        outputs: list[Output] = self._acknowledge(event)
        for peer, one in self.peers.items():
            if peer == event.source or session in one.left_out or one.sealed:
                continue
            sent = one.sent.get(session, set())
            ids = [id for id in event.fresh if id not in sent]
            if not one.level:
                one.grew.setdefault(session, []).extend(ids)
            elif session not in one.apart:  # Else it asks, and gets them with what came before.
                eager = event.source is None and one.takes(session)
                outputs += one.send(session, ids, eager=eager)
        return outputs

    def _acknowledge(self, event: Changed) -> list[Output]:
        """Tell every peer what is durable here, so that each knows of each."""
        outputs: list[Output] = []
        for peer, one in self.peers.items():
            if event.session in one.left_out or one.sealed:
                continue
            for begin in range(0, max(len(event.durable), len(event.whole)), SYNC_IDS_MAX):
                end = begin + SYNC_IDS_MAX
                said = Acknowledge(
                    session=event.session, statements=event.durable[begin:end], whole=event.whole[begin:end]
                )
                outputs.append(Send(peer=peer, message=said))
        return outputs

    def _acknowledged(self, one: Peer, said: Acknowledge, now_ms: int) -> list[Output]:
        one.acknowledged(said.session, said.statements, said.whole)
        outputs: list[Output] = [
            Acknowledged(peer=one.id, session=said.session, statements=said.statements, whole=said.whole)
        ]
        if said.whole:
            self.wants.met(one.id)
            outputs += self._ask_for_content(now_ms)
        return outputs

    def expects_content(
        self, peer: DeviceId, session: SessionId, checkpoints: Collection[CheckpointId], *, along: bool = False
    ) -> None:
        """Note checkpoints whose content the peer is to get; whoever carries out `SendStatements` says so.

        `along`: it goes with them, in the order in which they were made.
        """
        if (one := self.peers.get(peer)) is not None and checkpoints:
            one.bare.setdefault(session, set()).update(checkpoints)
            if along:
                one.along.setdefault(session, set()).update(checkpoints)

    # Content

    def _wanted(self, one: Peer, want: Want, now_ms: int) -> list[Output]:
        if want.session in one.left_out:
            return [Send(peer=one.id, message=Absent(objects=want.objects, modules=want.modules))]
        for name in (*want.objects, *want.modules):
            one.given[name] = one.given.get(name, 0) + 1
            if one.given[name] > SYNC_WANT_AGAIN_MAX:
                return self._cut(one.id, "it asks for the same object again and again", now_ms)
        return [SendContent(peer=one.id, session=want.session, objects=want.objects, modules=want.modules)]

    def has_not(self, peer: DeviceId, name: bytes) -> None:
        """Note that a peer is told that something is absent; whoever carries out `SendContent` says so.

        It asks again whenever this device may have more, which costs words and nothing else.
        """
        if (one := self.peers.get(peer)) is not None:
            one.given.pop(name, None)

    def _ask_for_content(self, now_ms: int) -> list[Output]:
        if None in self.holding:
            return []
        able = {peer: one.left_out for peer, one in self.peers.items()}
        sealed = [peer for peer, one in self.peers.items() if one.sealed]
        asked = self.wants.ask(able, frozenset(one for one in self.holding if one is not None), now_ms, sealed)
        return [
            Send(
                peer=peer,
                message=Want(
                    session=NO_SESSION if self.peers[peer].sealed else session,
                    objects=tuple(ObjectName(name) for name, module in names if not module),
                    modules=tuple(Sha256(name) for name, module in names if module),
                ),
            )
            for peer, session, names in asked
        ]

    def _hold(self, why: str, session: SessionId | None, now_ms: int) -> list[Output]:
        if self.holding.get(session, "") == why:
            return []
        if why:
            self.holding[session] = why
        else:
            self.holding.pop(session, None)
        outputs = self._say_held(session, *self.peers)
        if not why:
            outputs += self._ask_for_content(now_ms)
            for one in self.peers.values():  # What came meanwhile was not kept.
                outputs += self._hello(one, now_ms)
        return outputs

    def _say_held(self, session: SessionId | None, *peers: DeviceId) -> list[Output]:
        """Say to these whether content of a session is taken; a store-only one hears of none by its name."""
        message = Holding(why=self.holding.get(session, ""), session=session)
        return [
            Send(peer=peer, message=message)
            for peer in peers
            if session not in self.peers[peer].left_out and not (self.peers[peer].sealed and session is not None)
        ]


def had(session: SessionId, records: Iterable[StatementId]) -> Had:
    """Return what tells a peer that it had these records before its store was rolled back."""
    return Had(session=session, records=tuple(sorted(records))[:SYNC_IDS_MAX])
