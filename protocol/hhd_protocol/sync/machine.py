"""The sync of one device with all of its full peers: what to ask, what to send, what to acknowledge.

It keeps nothing on disk and does nothing itself: events go in, outputs come out in the order in which they are to be
done (what is kept stands before what is said of it). Each message may come twice, late or not at all: a comparison
begins anew with the next `Hello`, and takes up where the disks are.

A *round* is one question of this device to one peer: Hello, and where the roots differ Buckets, Entries, Differ, Ask
for each session, Compared, and Answered when all was sent. Between rounds each side tells the other what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import SYNC_AGAIN_MS, SYNC_IDS_MAX, SYNC_UNBACKED_MAX, SYNC_WANT_AGAIN_MAX
from hhd_protocol.sync import compare
from hhd_protocol.sync.budget import Budget
from hhd_protocol.sync.chains import Chains, Frontier
from hhd_protocol.sync.events import (
    Acknowledged,
    Allowed,
    Answering,
    Arrived,
    Broke,
    Changed,
    Cut,
    Event,
    Heard,
    Hold,
    Lacking,
    Linked,
    Load,
    Loaded,
    Lost,
    Missing,
    Opened,
    Output,
    Piled,
    Send,
    SendContent,
    SendStatements,
    Take,
    Tick,
    Woke,
)
from hhd_protocol.sync.messages import (
    DIGEST_BYTES,
    VERSION,
    Absent,
    Acknowledge,
    Answered,
    Ask,
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
    Rebuild,
    Statements,
    Want,
)
from hhd_protocol.sync.wants import Wants

_SEALED = (Hello, Buckets, Entries, Differ, Answered, Compared, Want, Absent, Part, Begin, Holding)
"""What is said between a full member and one that only stores."""
NO_SESSION = SessionId(StatementId(bytes(32)))
"""Named where something is asked of a device that only stores."""
OPEN_SESSIONS_MAX = 64
"""Sessions whose statements are held in memory: those that somebody works on, and those that are being compared."""


@dataclass(kw_only=True)
class Peer:
    """What is known of one linked peer; gone with the link.

    `level`: it said what it has, and `apart` are the sessions that it has otherwise and did not ask for yet. `grew`:
    what was added while it was not level. `sent`: statements that went over and were not acknowledged. `bare`:
    checkpoints of which it has no content yet, as far as is known. `waiting`: what is done when a session is loaded.
    """

    left_out: frozenset[SessionId]
    sealed: bool = False
    incarnation: Incarnation | None = None
    round: int = 0
    answered: int = -1
    holding: dict[SessionId | None, str] = field(default_factory=dict)
    level: bool = False
    apart: set[SessionId] = field(default_factory=set)
    grew: dict[SessionId, list[StatementId]] = field(default_factory=dict)
    sent: dict[SessionId, set[StatementId]] = field(default_factory=dict)
    bare: dict[SessionId, set[CheckpointId]] = field(default_factory=dict)
    waiting: list[tuple[SessionId | None, Callable[[], list[Output]]]] = field(default_factory=list)
    given: dict[bytes, int] = field(default_factory=dict)
    unbacked: int = 0
    budget: Budget = field(default_factory=Budget)
    asked_ms: int = 0


class Sync:
    """One device's sync; `handle` takes what happened and returns what to do, in order."""

    def __init__(self, *, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self.peers: dict[DeviceId, Peer] = {}
        self.digests: dict[SessionId, bytes] = {}
        self.wants = Wants()
        self._open: OrderedDict[SessionId, tuple[Chains, tuple[CheckpointId, ...]]] = OrderedDict()
        self._loading: set[SessionId] = set()
        self._pile: dict[SessionId, bytes] = {}
        """Of sealed bytes, each in the place of a session."""
        self._round = 0
        self._since = 0
        """Rounds from this one on count as asked since the device started, or woke."""
        self.holding: dict[SessionId | None, str] = {}
        """Why no content is taken, of a session or (None) of any."""

    # What others ask

    def is_level(self, peer: DeviceId, session: SessionId) -> bool:
        """Whether the peer said that all that is here of the session is durable there."""
        one = self.peers.get(peer)
        if one is None or not one.level or session in one.left_out or session in one.apart:
            return False
        return not one.sent.get(session) and not one.bare.get(session)

    def behind(self, peer: DeviceId) -> int:
        """How many sessions a linked peer does not have as they are here, as far as is known."""
        one = self.peers[peer]
        return sum(1 for session in {*one.apart, *one.sent, *one.bare} if not self.is_level(peer, session))

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
                if peer not in self.peers:
                    return []
                if (why := self.peers[peer].budget.spend(message, now_ms)) is not None:
                    return self._cut(peer, why, now_ms)
                return self._heard(peer, message, now_ms)
            case Changed():
                return self._changed(event, now_ms)
            case Piled(pile=pile):
                self._pile = {SessionId(StatementId(name)): bytes([what]) * DIGEST_BYTES for name, what in pile.items()}
                return [out for peer, one in self.peers.items() if one.sealed for out in self._hello(peer, now_ms)]
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
                self._loading.discard(event.session)
                self._keep_open(event.session, Chains(event.after), event.lacking)
                return [output for peer in list(self.peers) for output in self._go_on(peer)]
            case Linked(peer=peer, left_out=left_out, sealed=sealed):
                self.peers[peer] = Peer(left_out=left_out, sealed=sealed)
                self.wants.met(peer)
                return [*self._hello(peer, now_ms), *self._ask_for_content(now_ms)]
            case Lost(peer=peer):
                self.peers.pop(peer, None)
                self.wants.lost(peer)
                return self._ask_for_content(now_ms)
            case Opened(digests=digests):
                self.digests = dict(digests)
                return []
            case Woke():
                self._since = self._round + 1
                return [output for peer in self.peers for output in self._hello(peer, now_ms)]
            case Allowed(peer=peer, left_out=left_out):
                if peer not in self.peers or self.peers[peer].left_out == left_out:
                    return []
                self.peers[peer].left_out = left_out
                return self._hello(peer, now_ms)
            case Broke(peer=peer, why=why):
                return self._cut(peer, why, now_ms)
            case Hold(why=why, session=session):
                return self._hold(why, session, now_ms)
            case Tick():
                return self._tick(now_ms)

    def _tick(self, now_ms: int) -> list[Output]:
        outputs: list[Output] = []
        for name in self.wants.still(now_ms):
            self.wants.refused(name)
        for peer, one in self.peers.items():
            if now_ms >= one.asked_ms + SYNC_AGAIN_MS:
                outputs += self._hello(peer, now_ms)
        return outputs + self._ask_for_content(now_ms)

    def _cut(self, peer: DeviceId, why: str, now_ms: int) -> list[Output]:
        self.peers.pop(peer, None)
        self.wants.lost(peer)
        return [Cut(peer=peer, why=why), *self._ask_for_content(now_ms)]

    # Rounds

    def _hello(self, peer: DeviceId, now_ms: int) -> list[Output]:
        one = self.peers[peer]
        self._round += 1
        one.round, one.asked_ms = self._round, now_ms
        mine = self._for(one)
        hello = Hello(
            incarnation=self.incarnation,
            round=one.round,
            count=len(mine),
            root=compare.root(mine),
            holding=self.holding.get(None, ""),
        )
        return [Send(peer=peer, message=hello)]

    def _for(self, one: Peer) -> Mapping[SessionId, bytes]:
        """The digests of what a peer is to have."""
        if one.sealed:
            return self._pile
        if not one.left_out:
            return self.digests
        return {session: digest for session, digest in self.digests.items() if session not in one.left_out}

    def _heard(self, peer: DeviceId, message: Message, now_ms: int) -> list[Output]:
        one = self.peers[peer]
        if one.sealed and not isinstance(message, _SEALED):
            return self._cut(peer, "it says more than a device that only stores is told, or may say", now_ms)
        match message:
            case Hello():
                self.wants.met(peer)
                return [*self._asked(peer, message, now_ms), *self._ask_for_content(now_ms)]
            case Buckets(round=round, bits=bits, digests=theirs):
                return self._entries(peer, bits, theirs) if round == one.round else []
            case Entries():
                return self._differ(peer, message)
            case Differ(round=round, sessions=sessions, more=more):
                if round != one.round:
                    return []
                if one.sealed:
                    return [Lacking(peer=peer, names=tuple(sessions))] if sessions else []
                for session in sessions:
                    if session not in one.left_out:
                        self._when(peer, session, partial(self._ask, peer, session))
                if not more:
                    self._when(peer, None, lambda: [Send(peer=peer, message=Compared(round=round))])
                return self._go_on(peer)
            case Ask(session=session):
                if session in one.left_out:
                    return []
                self._when(peer, session, partial(self._give, peer, message))
                return self._go_on(peer)
            case Compared(round=round):
                self._when(peer, None, lambda: self._answer(peer, round))
                return self._go_on(peer)
            case Answered(round=round):
                return self._was_answered(peer, round)
            case Want(session=session, objects=objects, modules=modules):
                return self._wanted(peer, session, objects, modules, now_ms)
            case Absent(objects=objects, modules=modules):
                for name in (*objects, *modules):
                    if self.wants.session(name) == NO_SESSION and self.wants.asked(name) == peer:
                        self.wants.drop_one(name)  # It is no letter.
                    self.wants.absent(name, peer)
                return self._ask_for_content(now_ms)
            case Acknowledge(session=session, statements=statements, whole=whole):
                outputs = self._acknowledged(peer, session, statements, whole)
                if whole:
                    self.wants.met(peer)
                    outputs += self._ask_for_content(now_ms)
                return outputs
            case Holding(why=why, session=session):
                if why:
                    one.holding[session] = why
                else:
                    one.holding.pop(session, None)
                return []
            case Statements(entries=entries):
                one.unbacked += len(entries)
                if one.unbacked > SYNC_UNBACKED_MAX:
                    return self._cut(peer, "it gives statements without end, and the content of none", now_ms)
                return [Take(peer=peer, message=message)]
            case Part(name=name) | Rebuild(name=name) | Begin(name=name):
                if isinstance(message, Part):
                    self.wants.moved(name, now_ms)
                return [Take(peer=peer, message=message)]
            case _:
                return [Take(peer=peer, message=message)]

    def _asked(self, peer: DeviceId, hello: Hello, now_ms: int) -> list[Output]:
        one = self.peers[peer]
        if hello.version < VERSION:
            return [Cut(peer=peer, why="it speaks a version of sync that is not known here")]
        one.incarnation = hello.incarnation
        one.holding.pop(None, None)
        if hello.holding:
            one.holding[None] = hello.holding
        one.sent.clear()  # What was lost on the way, if anything was, is asked for now.
        one.grew.clear()
        mine = self._for(one)
        if hello.root == compare.root(mine):
            one.level = True
            one.apart.clear()
            one.bare.clear()
            return [
                Acknowledged(peer=peer, session=None),
                Send(peer=peer, message=Answered(round=hello.round)),
            ]
        one.level = False
        bits = compare.bits_for(max(len(mine), hello.count))
        digests = b"".join(compare.bucket_digests(mine, bits))
        outputs: list[Output] = [Send(peer=peer, message=Buckets(round=hello.round, bits=bits, digests=digests))]
        if one.answered >= one.round:  # It may have what is not here: ask in turn.
            outputs += self._hello(peer, now_ms)
        return outputs

    def _entries(self, peer: DeviceId, bits: int, theirs: bytes) -> list[Output]:
        """The peer told of its buckets: say what is here in those that differ."""
        one = self.peers[peer]
        mine = self._for(one)
        buckets = compare.differing(mine, bits, theirs)
        filled = compare.in_buckets(mine, bits, frozenset(buckets))
        cuts: list[tuple[list[int], list[SessionId]]] = [([], [])]
        for number in buckets:
            sessions = filled.get(number, [])
            if len(cuts[-1][1]) + len(sessions) > SYNC_IDS_MAX // 2 and cuts[-1][0]:
                cuts.append(([], []))
            cuts[-1][0].append(number)
            cuts[-1][1].extend(sessions)
        return [
            Send(
                peer=peer,
                message=Entries(
                    round=one.round,
                    bits=bits,
                    buckets=tuple(numbers),
                    sessions=tuple(sessions),
                    digests=b"".join(mine[session] for session in sessions),
                    more=index < len(cuts) - 1,
                ),
            )
            for index, (numbers, sessions) in enumerate(cuts)
        ]

    def _differ(self, peer: DeviceId, entries: Entries) -> list[Output]:
        """The asker said what it has where buckets differ: name what it has otherwise than we, or lacks."""
        one = self.peers[peer]
        mine = self._for(one)
        theirs = {
            session: entries.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]
            for at, session in enumerate(entries.sessions)
        }
        here = compare.in_buckets(mine, entries.bits, frozenset(entries.buckets))
        differ = [session for sessions in here.values() for session in sessions if theirs.get(session) != mine[session]]
        one.apart.update(differ)
        outputs: list[Output] = []
        for begin in range(0, max(1, len(differ)), SYNC_IDS_MAX):
            part = tuple(differ[begin : begin + SYNC_IDS_MAX])
            more = entries.more or begin + SYNC_IDS_MAX < len(differ)
            outputs.append(Send(peer=peer, message=Differ(round=entries.round, sessions=part, more=more)))
        if not entries.more:
            one.level = True
            grew, one.grew = one.grew, {}
            for session, ids in grew.items():  # It was told of them as they were before.
                if session not in one.apart:
                    outputs += self._send(peer, session, ids)
        return outputs

    def _ask(self, peer: DeviceId, session: SessionId) -> list[Output]:
        chains, lacking = self._opened(session)
        mine = chains.frontier()
        ask = Ask(
            session=session,
            ends=mine.ends,
            marks=mine.marks,
            loose=mine.loose,
            lacking=lacking[:SYNC_IDS_MAX],
        )
        return [Send(peer=peer, message=ask)]

    def _give(self, peer: DeviceId, ask: Ask) -> list[Output]:
        """Send what the asker lacks of one session."""
        one = self.peers[peer]
        chains, lacking = self._opened(ask.session)
        theirs = Frontier(ends=ask.ends, marks=ask.marks, loose=ask.loose)
        one.apart.discard(ask.session)
        one.bare[ask.session] = set(ask.lacking).difference(lacking)
        had = one.sent.get(ask.session, set())
        ids = [id for id in chains.lacking(theirs) if id not in had]
        return self._send(peer, ask.session, ids)

    def _send(
        self, peer: DeviceId, session: SessionId, ids: Iterable[StatementId], *, eager: bool = False
    ) -> list[Output]:
        sending = tuple(ids)
        if not sending:
            return []
        self.peers[peer].sent.setdefault(session, set()).update(sending)
        return [SendStatements(peer=peer, session=session, ids=sending, eager=eager)]

    def _answer(self, peer: DeviceId, round: int) -> list[Output]:
        return [Send(peer=peer, message=Answered(round=round))]

    def _was_answered(self, peer: DeviceId, round: int) -> list[Output]:
        one = self.peers[peer]
        if round > one.round:
            return [Cut(peer=peer, why="it answers what it was not asked")]
        one.answered = max(one.answered, round)
        return [Answering(peer=peer)] if round >= self._since else []

    # What is here

    def _changed(self, event: Changed, now_ms: int) -> list[Output]:
        session = event.session
        if event.source is None and not event.fresh and self.digests.get(session) != event.digest:
            for one in self.peers.values():  # What is new is not known: peers have it otherwise until they asked.
                one.apart.add(session)
        if event.digest is None:
            self.digests.pop(session, None)
            self._open.pop(session, None)
            self.wants.drop(session)
        else:
            self.digests[session] = event.digest
        if (opened := self._open.get(session)) is not None:
            for id, after in event.fresh.items():
                opened[0].add(id, after)
            self._open[session] = opened[0], event.lacking
        outputs: list[Output] = self._acknowledge(event)
        for peer, one in self.peers.items():
            if peer == event.source or session in one.left_out or one.sealed:
                continue
            sent = one.sent.get(session, set())
            ids = [id for id in event.fresh if id not in sent]
            if not one.level:
                one.grew.setdefault(session, []).extend(ids)
            elif session not in one.apart:  # Else it asks, and gets them with what came before.
                held = bool(one.bare.get(session)) or None in one.holding or session in one.holding
                outputs += self._send(peer, session, ids, eager=event.source is None and not held)
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

    def _acknowledged(
        self, peer: DeviceId, session: SessionId, statements: tuple[StatementId, ...], whole: tuple[CheckpointId, ...]
    ) -> list[Output]:
        one = self.peers[peer]
        if (sent := one.sent.get(session)) is not None:
            sent.difference_update(statements)
            if not sent:
                del one.sent[session]
        if (bare := one.bare.get(session)) is not None:
            bare.difference_update(whole)
            if not bare:
                del one.bare[session]
        return [Acknowledged(peer=peer, session=session, statements=statements, whole=whole)]

    def expects_content(self, peer: DeviceId, session: SessionId, checkpoints: Iterable[CheckpointId]) -> None:
        """Note checkpoints whose content the peer is to get; whoever carries out `SendStatements` says so."""
        if (one := self.peers.get(peer)) is not None:
            one.bare.setdefault(session, set()).update(checkpoints)

    # Content

    def _wanted(
        self,
        peer: DeviceId,
        session: SessionId,
        objects: tuple[ObjectName, ...],
        modules: tuple[Sha256, ...],
        now_ms: int,
    ) -> list[Output]:
        one = self.peers[peer]
        if session in one.left_out:
            return [Send(peer=peer, message=Absent(objects=objects, modules=modules))]
        for name in (*objects, *modules):
            one.given[name] = one.given.get(name, 0) + 1
            if one.given[name] > SYNC_WANT_AGAIN_MAX:
                return self._cut(peer, "it asks for the same object again and again", now_ms)
        return [SendContent(peer=peer, session=session, objects=objects, modules=modules)]

    def _ask_for_content(self, now_ms: int) -> list[Output]:
        if None in self.holding:
            return []
        able = {peer: one.left_out for peer, one in self.peers.items()}
        asked = self.wants.ask(able, frozenset(one for one in self.holding if one is not None), now_ms)
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
        outputs: list[Output] = [
            Send(peer=peer, message=Holding(why=why, session=session))
            for peer, one in self.peers.items()
            if session not in one.left_out and not (one.sealed and session is not None)
        ]
        if not why:
            outputs += self._ask_for_content(now_ms)
            for peer in self.peers:  # What came meanwhile was not kept.
                outputs += self._hello(peer, now_ms)
        return outputs

    # Sessions in memory

    def _when(self, peer: DeviceId, session: SessionId | None, act: Callable[[], list[Output]]) -> None:
        self.peers[peer].waiting.append((session, act))

    def _go_on(self, peer: DeviceId) -> list[Output]:
        """Do what waits, in order, as far as the sessions it needs are in memory."""
        outputs: list[Output] = []
        one = self.peers.get(peer)
        while one is not None and one.waiting:
            session, act = one.waiting[0]
            if session is not None and session not in self._open and session in self.digests:
                if session not in self._loading:
                    self._loading.add(session)
                    outputs.append(Load(session=session))
                break
            del one.waiting[0]
            outputs += act()
        return outputs

    def _opened(self, session: SessionId) -> tuple[Chains, tuple[CheckpointId, ...]]:
        """The statements of a session; none of one that is not here."""
        found = self._open.get(session)
        if found is None:
            return Chains(), ()
        self._open.move_to_end(session)
        return found

    def _keep_open(self, session: SessionId, chains: Chains, lacking: tuple[CheckpointId, ...]) -> None:
        self._open[session] = chains, lacking
        self._open.move_to_end(session)
        while len(self._open) > OPEN_SESSIONS_MAX:
            self._open.popitem(last=False)


def had(session: SessionId, records: Iterable[StatementId]) -> Had:
    """Return what tells a peer that it had these records before its store was rolled back."""
    return Had(session=session, records=tuple(sorted(records))[:SYNC_IDS_MAX])
