"""Five hundred handoffs between two daemons, each on its way when one is killed or the line is cut: none is lost, none
is doubled.

Real daemons in namespaces, with real stores, TLS, discovery, workers and files. In each round all sessions are wished
to the other device at once, those that are there the other way; some have just been told to work, and what they run
leaves a mark outside of all folders. At a moment that the seed chooses (the so-many-th handoff came to a stage, and
that daemon stops right there; or so many bytes went over the line) both daemons stand still, some people close their
terminals, and one of `FAULTS` strikes. What it met is counted, and a zero fails. What each stage does when it is
struck, one by one: `test_transfer_stages.py`; with unsynced writes lost: `tests/sim/handoff`.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.e2e.lab import needs_agent
from tests.net import halting
from tests.net.conftest import LabMaker
from tests.net.faults import FAULTS
from tests.net.lab import Host
from tests.net.moving import COMMANDS, PAUSE, Fleet, Move, results
from tests.net.paired import SECONDS, until

from hhd.base.errors import UserError
from hhd.node.listed import State
from hhd_protocol.handoff import OVER, PENDING, Side, Stage
from hhd_protocol.ids import SessionId

pytestmark = [pytest.mark.netns, needs_agent]

T = TypeVar("T")
TRANSFERS, SESSIONS, ROUNDS_MAX = 500, 24, 40
TOLD, HELD = 5, 2
"""Sessions that are told to work at the begin of a round; those of them whose command is at work until it strikes."""
LEFT = 0.15
"""Of those that are not released, how many are given up by their person at the moment of the fault."""
BYTES_MAX = 80_000
"""Of some 300,000 that a round sends."""
EARLY = (Stage.OFFERED, Stage.ADMITTED)
"""Stages at which it strikes once most are there; at the others, before many are over."""
STAGES = (
    *((Side.SOURCE, stage) for stage in (*PENDING, Stage.RELEASED, Stage.ACKNOWLEDGED)),
    *((Side.TARGET, stage) for stage in (Stage.ADMITTED, Stage.READY, Stage.TAKEN, Stage.ACKNOWLEDGED)),
)
MOMENTS = (*STAGES, None, None, None)
"""At which stage it strikes; None: while bytes are on the line."""


class Rounds:
    """The rounds of one seed, and what is known of each session from those before."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet, self.dice, self.counts = fleet, random.Random(seed), Counter[str]()
        self.at = {session: host for session, (host, _) in fleet.agreed(fleet.sessions).items()}
        self.said = dict.fromkeys(fleet.sessions, b"")
        self.held = list[SessionId]()
        self.arrived = Counter[SessionId]()
        self.moves = list[Move]()
        self.struck = set[Move]()
        self._faults, self._moments = self._cycle(list(FAULTS)), self._cycle(list(MOMENTS))

    def _cycle(self, all_of_them: list[T]) -> Iterator[T]:
        while True:
            self.dice.shuffle(all_of_them)
            yield from list(all_of_them)

    def one(self) -> None:
        """All sessions are wished away; a fault strikes; everything comes to rest, and is as it is to be."""
        fleet = self.fleet
        fleet.ready()
        self._let_work()
        fleet.look()
        came = self._moment()
        wishes = list(self.at.items())
        self.dice.shuffle(wishes)
        moves = [fleet.wish(session, at) for session, at in wishes]
        self.moves += moves
        if came(moves):
            self._strike(moves)
        else:
            self.counts["rounds that were over before"] += 1
        fleet.hold()
        fleet.rest(moves)
        self._judge(moves)

    def _let_work(self) -> None:
        """Some sessions get a word; of those with a command that may have run, some are told what became of it."""
        states = dict[SessionId, State]()

        def enough() -> bool:
            states.update(self.states())
            return sum(state is State.WAITING for state in states.values()) >= TOLD

        until(enough, SECONDS, pause=PAUSE)
        for session in (one for one, state in states.items() if state is State.UNCERTAIN and self.dice.random() < 0.7):
            self._settle(session)
        told = self.dice.sample([one for one, state in states.items() if state is State.WAITING], TOLD)
        self.held, before = told[:HELD], {one: len(self.fleet.ran(one)) for one in told}
        self.fleet.hold(*self.held)
        for session in told:
            self.fleet.say(self.at[session], session)
        until(lambda: all(len(self.fleet.ran(one)) > before[one] for one in told), SECONDS)

    def _settle(self, session: SessionId) -> None:
        self.fleet.settle(self.at[session], session)
        self.counts["commands settled"] += 1

    def states(self) -> dict[SessionId, State]:
        """How each session is, at who has it."""
        listed = [self.fleet.listed(host) for host in self.fleet.hosts]
        return {session: listed[at.index][session].state for session, at in self.at.items()}

    def never_met(self) -> list[str]:
        """What has to come about and has not."""
        stages = [halting.place(*each) for each in STAGES]
        must = [*FAULTS, *stages, "undone", "commands settled", "left by their person"]
        return [one for one in must if self.counts[one] == 0]

    # The moment, and what strikes then

    def _moment(self) -> Callable[[list[Move]], bool]:
        """Choose when it strikes; what is returned waits for that, False where all is over without it."""
        fleet, chosen = self.fleet, next(self._moments)
        if chosen is None:
            many = self.dice.randrange(BYTES_MAX)
            return lambda moves: self._comes(moves, self._bytes(moves, many))
        side, stage = chosen
        going = {host: sum((at is host) is (side is Side.SOURCE) for at in self.at.values()) for host in fleet.hosts}
        host = self.dice.choice([host for host, count in going.items() if count])
        few, most = max(1, going[host] // 3), going[host]
        time = self.dice.randint(most - few + 1, most) if stage in EARLY else self.dice.randint(1, few)
        halting.order(host.folder / "data", halting.place(side, stage), time=time)
        return lambda moves: self._comes(moves, lambda: halting.stopped(fleet.daemons[host.name]))

    def _bytes(self, moves: list[Move], many: int) -> Callable[[], bool]:
        """Whether so many bytes went over the line since most handoffs had begun."""
        begun = list[int]()

        def came() -> bool:
            now = sum(map(self.fleet.bytes_sent, self.fleet.hosts))
            offered = sum(source is not Stage.NONE for source, _ in self.fleet.stages(moves).values())
            if not begun and offered * 3 > len(moves) * 2:
                begun.append(now)
            return bool(begun) and now >= begun[0] + many

        return came

    def _comes(self, moves: list[Move], moment: Callable[[], bool]) -> bool:
        def over() -> bool:
            stages = self.fleet.stages(moves)
            return all(source in OVER or move.session in self.held for move, (source, _) in stages.items())

        until(lambda: moment() or over(), SECONDS)
        return moment()

    def _strike(self, moves: list[Move]) -> None:
        fault = next(self._faults)
        self.fleet.stop()
        for move, (source, target) in self.fleet.stages(moves).items():
            if source is Stage.NONE or (source in OVER and target in (*OVER, Stage.NONE)):
                continue
            self.struck.add(move)
            self.counts[fault] += 1
            self.counts[halting.place(Side.SOURCE, source)] += 1
            self.counts[halting.place(Side.TARGET, target)] += 1
            if source in PENDING and not move.error and self.dice.random() < LEFT:
                move.leave()
                self.counts["left by their person"] += 1
        FAULTS[fault](self.fleet, self.dice)

    # What must hold after it

    def _judge(self, moves: list[Move]) -> None:
        """Each session is one device's, and has gone on from where it was; each handoff is finished or undone."""
        self.fleet.stages(moves)
        agreed = self.fleet.agreed(move.session for move in moves)
        for move in moves:
            session = move.session
            self.at[session], standing = agreed[session]
            arrived = self.at[session] is move.target
            self.arrived[session] += arrived
            assert standing.token == 1 + self.arrived[session], "no release was taken twice, none is forgotten"
            assert move.transfer or not arrived
            if move.transfer:
                ended = [self.fleet.stage(host, move.transfer) for host in (move.source, move.target)]
                undone = [[Stage.ABORTED, Stage.ABORTED], [Stage.ABORTED, Stage.NONE]]
                assert ended == [Stage.CLEANED] * 2 if arrived else ended in undone, (arrived, ended)
            if move in self.struck:
                self.counts["finished" if arrived else "undone"] += 1
            self.judge_work(session)

    def judge_work(self, session: SessionId) -> None:
        """What it said is what it had said before, and more; what it ran, it ran once, in order, and it says so.

        It may be at work meanwhile.
        """
        before, said = len(self.fleet.ran(session)), self.fleet.transcript(self.at[session], session)
        assert said.startswith(self.said[session]), f"{session.hex()} has lost what it had said"
        self.said[session] = said
        done, ran = results(said), self.fleet.ran(session)
        assert done == [f"sh step {number}" for number in range(len(done))]
        assert ran == list(range(len(ran))) and before - 1 <= len(done) <= len(ran), (session.hex(), before, ran, done)

    def end(self) -> None:
        """What may have run is settled, and every session goes on where it is, once, to its next sentence."""
        fleet = self.fleet
        fleet.ready()
        for session, state in self.states().items():
            if state is State.UNCERTAIN:
                self._settle(session)
        self._all_wait()
        before = {session: fleet.ran(session) for session in fleet.sessions}
        for session, at in self.at.items():
            fleet.say(at, session)
        until(lambda: all(len(fleet.ran(one)) == len(ran) + COMMANDS for one, ran in before.items()), SECONDS)
        self._all_wait()
        agreed = fleet.agreed(before)
        for session, ran in before.items():
            holder, _ = agreed[session]
            assert holder is self.at[session]
            self.judge_work(session)
            assert len(results(self.said[session])) == len(ran) + COMMANDS
            until(lambda: self._has_all(fleet.other(holder), session), SECONDS, pause=PAUSE)  # noqa: B023
            files = Path(fleet.listed(holder)[session].folder, "ran").read_text().split()
            assert len(files) == len(set(files)), "no command is in its folder twice"
            assert files[-COMMANDS:] == [str(len(ran) + number) for number in range(COMMANDS)], "it went on there"
        self._all_listed()

    def _has_all(self, host: Host, session: SessionId) -> bool:
        """Whether this device has all that a session said; what came last may be on its way."""
        with contextlib.suppress(UserError):
            return self.fleet.transcript(host, session) == self.said[session]
        return False

    def _all_wait(self) -> None:
        until(lambda: all(state is State.WAITING for state in self.states().values()), SECONDS, pause=PAUSE)

    def _all_listed(self) -> None:
        """`hhd transfers` lists each handoff on both devices, finished or undone, with nothing left to do."""
        listed = {host: self.fleet.transfers(host) for host in self.fleet.hosts}
        for move in (move for move in self.moves if move.transfer):
            source, target = listed[move.source][move.transfer], listed[move.target].get(move.transfer)
            assert source.over and source.outgoing and source.stage in ("cleaned", "aborted")
            assert (target.stage if target else "aborted") == source.stage
        assert all(one.over for found in listed.values() for one in found.values())


@pytest.mark.long
def test_of_five_hundred_handoffs_that_are_struck_all_arrive_or_are_undone(
    lab: LabMaker, tmp_path: Path, told: Callable[[str], None]
) -> None:
    with lab("laptop", "desktop", in_memory=True) as net:
        fleet = Fleet(net, tmp_path)
        fleet.ready()
        fleet.begin(SESSIONS)
        rounds = Rounds(fleet, 8)
        for _ in range(ROUNDS_MAX):
            rounds.one()
            if len(rounds.struck) >= TRANSFERS and not rounds.never_met():
                break
        rounds.end()
        counts = rounds.counts
        uncertain = [move for move in rounds.struck if move.steps and move.steps[-1].status == 5]
        counts["not known to their terminal, and ended by themselves"] = len(uncertain)
        told(
            f"{len(rounds.struck)} handoffs were struck: " + ", ".join(f"{counts[one]} {one}" for one in sorted(counts))
        )
        assert counts["finished"] + counts["undone"] == len(rounds.struck) >= TRANSFERS
        assert not rounds.never_met(), counts
        assert counts["finished"] > TRANSFERS / 2
