"""One question of a device to another, from Hello to Answered: what the other has that the asker lacks.

Where the roots differ: Buckets, Entries, Differ, Ask for each session, Compared, and Answered when all was sent. Each
message may come twice, late or not at all: a comparison begins anew with the next Hello. Both ask, each for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hhd_protocol.ids import Incarnation, SessionId
from hhd_protocol.limits import SYNC_IDS_MAX
from hhd_protocol.sync import compare
from hhd_protocol.sync.chains import Frontier
from hhd_protocol.sync.events import Acknowledged, Answering, Cut, Lacking, Output, Send, SendBare
from hhd_protocol.sync.here import Here
from hhd_protocol.sync.messages import (
    DIGEST_BYTES,
    VERSION_MIN,
    Answered,
    Ask,
    Buckets,
    Compared,
    Differ,
    Entries,
    Hello,
)
from hhd_protocol.sync.peer import Peer


class Rounds:
    """The rounds of one device with all of its peers, the questions and the answers."""

    def __init__(self, here: Here, incarnation: Incarnation) -> None:
        self._here, self._incarnation = here, incarnation
        self._round = 0
        self._since = 0
        """Rounds from this one on count as asked since the device started, or woke."""

    def woke(self) -> None:
        """What was answered before counts no more."""
        self._since = self._round + 1

    # Asking

    def hello(self, one: Peer, holding: str, now_ms: int) -> list[Output]:
        """Begin a round; `holding`: why this device takes no content now."""
        self._round += 1
        one.round, one.asked_ms, one.differs = self._round, now_ms, False
        one.since.clear()
        mine = self._here.digests_for(one)
        hello = Hello(
            incarnation=self._incarnation,
            round=one.round,
            count=len(mine),
            root=self._here.root_for(one),
            holding=holding,
        )
        bare = [SendBare(peer=one.id)] if one.says else []
        return [*bare, Send(peer=one.id, message=hello)]

    def entries(self, one: Peer, told: Buckets) -> list[Output]:
        """The peer told of its buckets: say what is here in those that differ."""
        one.answers()
        if told.round != one.round:
            return []
        one.differs = True
        mine = self._here.digests_for(one)
        buckets = compare.differing(mine, told.bits, told.digests)
        filled = compare.in_buckets(mine, told.bits, frozenset(buckets))
        cuts: list[tuple[list[int], list[SessionId]]] = [([], [])]
        for number in buckets:
            sessions = filled.get(number, [])
            if len(cuts[-1][1]) + len(sessions) > SYNC_IDS_MAX // 2 and cuts[-1][0]:
                cuts.append(([], []))
            cuts[-1][0].append(number)
            cuts[-1][1].extend(sessions)
        return [
            Send(
                peer=one.id,
                message=Entries(
                    round=one.round,
                    bits=told.bits,
                    buckets=tuple(numbers),
                    sessions=tuple(sessions),
                    digests=b"".join(mine[session] for session in sessions),
                    more=index < len(cuts) - 1,
                ),
            )
            for index, (numbers, sessions) in enumerate(cuts)
        ]

    def ask(self, one: Peer, told: Differ) -> list[Output]:
        """The peer named the sessions that it has otherwise: ask for each, and say when that was all."""
        if told.round != one.round:
            return []
        if one.sealed:
            lacking = [Lacking(peer=one.id, names=tuple(told.sessions))] if told.sessions else []
            compared = [] if told.more else [Send(peer=one.id, message=Compared(round=told.round))]
            return [*lacking, *compared]
        for session in told.sessions:
            if session not in one.left_out:
                one.waiting.append((session, partial(self._ask, one, session)))
        if not told.more:
            one.waiting.append((None, lambda: [Send(peer=one.id, message=Compared(round=told.round))]))
        return self._here.go_on(one)

    def _ask(self, one: Peer, session: SessionId) -> list[Output]:
        chains, lacking = self._here.opened(session)
        mine = chains.frontier()
        ask = Ask(
            session=session,
            ends=mine.ends,
            marks=mine.marks,
            loose=mine.loose,
            lacking=lacking[:SYNC_IDS_MAX],
        )
        return [Send(peer=one.id, message=ask)]

    def answered(self, one: Peer, round: int) -> list[Output]:
        """The peer has answered all that it was asked in a round."""
        if round > one.round:
            return [Cut(peer=one.id, why="it answers what it was not asked")]
        one.answers()
        one.answered = max(one.answered, round)
        outputs: list[Output] = [Answering(peer=one.id)] if round >= self._since else []
        if round == one.round and not one.differs and not one.sealed:
            outputs += self._is_same(one)
        return outputs

    def _is_same(self, one: Peer) -> list[Output]:
        """The peer has what was here when it was asked: what it was to ask for, it was given before it was told of."""
        same = sorted(one.apart - one.since)
        one.apart.difference_update(same)
        one.missed.difference_update(same)
        return [Acknowledged(peer=one.id, session=session) for session in same]

    # Answering

    def asked(self, one: Peer, hello: Hello, holding: str, now_ms: int) -> list[Output]:
        """The peer begins a round."""
        if hello.version < VERSION_MIN:
            return [Cut(peer=one.id, why="it speaks a version of sync that is not known here")]
        first, one.incarnation = one.incarnation is None, hello.incarnation
        one.hello(hello.version)
        bare: list[Output] = [SendBare(peer=one.id)] if first and one.says else []  # It was not known to take that.
        one.holding.pop(None, None)
        if hello.holding:
            one.holding[None] = hello.holding
        one.sent.clear()  # What was lost on the way, if anything was, is asked for now.
        one.along.clear()
        one.grew.clear()
        mine = self._here.digests_for(one)
        if hello.root == self._here.root_for(one):
            one.level = True
            one.apart.clear()
            one.missed.clear()
            one.bare.clear()
            return [
                *bare,
                Acknowledged(peer=one.id, session=None),
                Send(peer=one.id, message=Answered(round=hello.round)),
            ]
        one.level, one.asking = False, hello.round
        one.apart.clear()  # It is told anew which they are.
        one.missed.clear()
        bits = compare.bits_for(max(len(mine), hello.count))
        digests = b"".join(compare.bucket_digests(mine, bits))
        buckets = Buckets(round=hello.round, bits=bits, digests=digests)
        outputs: list[Output] = [*bare, Send(peer=one.id, message=buckets)]
        if one.answered >= one.round:  # It may have what is not here: ask in turn.
            outputs += self.hello(one, holding, now_ms)
        return outputs

    def differ(self, one: Peer, entries: Entries) -> list[Output]:
        """The asker said what it has where buckets differ: name what it has otherwise than we, or lacks."""
        mine = self._here.digests_for(one)
        theirs = {
            session: entries.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]
            for at, session in enumerate(entries.sessions)
        }
        if one.sealed and entries.round != one.asking:
            return []
        here = compare.in_buckets(mine, entries.bits, frozenset(entries.buckets))
        differ = [session for sessions in here.values() for session in sessions if theirs.get(session) != mine[session]]
        one.apart.update(differ)
        one.missed.difference_update(*here.values())
        outputs: list[Output] = []
        for begin in range(0, max(1, len(differ)), SYNC_IDS_MAX):
            part = tuple(differ[begin : begin + SYNC_IDS_MAX])
            more = entries.more or begin + SYNC_IDS_MAX < len(differ)
            outputs.append(Send(peer=one.id, message=Differ(round=entries.round, sessions=part, more=more)))
        if not entries.more:
            one.level = True
            if one.sealed and not one.apart:  # It may have more: of what was removed, or is of who is gone.
                outputs.append(Acknowledged(peer=one.id, session=None))
            grew, one.grew = one.grew, {}
            for session, ids in grew.items():  # It was told of them as they were before.
                if session not in one.apart:
                    outputs += one.send(session, ids)
        return outputs

    def give(self, one: Peer, ask: Ask) -> list[Output]:
        """Send what the asker lacks of one session, once that is open."""
        if ask.session in one.left_out:
            return []
        one.waiting.append((ask.session, partial(self._give, one, ask)))
        return self._here.go_on(one)

    def _give(self, one: Peer, ask: Ask) -> list[Output]:
        chains, lacking = self._here.opened(ask.session)
        theirs = Frontier(ends=ask.ends, marks=ask.marks, loose=ask.loose)
        one.apart.discard(ask.session)
        one.missed.discard(ask.session)
        one.bare[ask.session] = set(ask.lacking).difference(lacking)
        had = one.sent.get(ask.session, set())
        return one.send(ask.session, (id for id in chains.lacking(theirs) if id not in had))

    def compared(self, one: Peer, round: int, again: Callable[[], list[Output]]) -> list[Output]:
        """The asker has asked for all: say when all that went before it is sent.

        `again` begins a round: what it missed in this one, it asks for in turn.
        """

        def answer() -> list[Output]:
            missed = bool(one.missed)
            one.missed.clear()  # Once for each: it may not be allowed to have them.
            return [Send(peer=one.id, message=Answered(round=round)), *(again() if missed else ())]

        one.waiting.append((None, answer))
        return self._here.go_on(one)
