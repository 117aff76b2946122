"""The heads of a session compared: a script of two devices that worked apart, then properties over random graphs."""

from __future__ import annotations

import random
from hashlib import sha256

from tests.protocol.histories import MEMBERS, A, B

from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.fencing import View, resolve
from hhd_protocol.heads import Kept, Lines, Tip
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId, Sha256, StatementId
from hhd_protocol.statements import Checkpoint, Progress, Record, RecordKind, Revocation

SESSION = SessionId(StatementId(b"r1"))


def id_of(name: str) -> CheckpointId:
    return CheckpointId(StatementId(name.encode()))


class Apart:
    """Checkpoints by name, as bodies and as facts."""

    def __init__(self) -> None:
        self.bodies: dict[CheckpointId, CheckpointBody] = {}
        self._at = 0

    def add(
        self,
        name: str,
        by: DeviceId,
        token: str,
        *parents: str,
        effects: dict[int, Progress] | None = None,
        turn: bool = False,
    ) -> None:
        self._at += 1000
        self.bodies[id_of(name)] = CheckpointBody(
            session=SESSION,
            by=by,
            after=StatementId(b"before " + name.encode()),
            seq=0,
            incarnation=Incarnation(bytes(16)),
            at_ms=self._at,
            token=StatementId(token.encode()),
            parents=tuple(map(id_of, parents)),
            payload=Sha256(bytes(32)),
            objects=(),
            effects=effects or {},
            turn=turn,
        )

    def view(self, *records: Record, revocations: tuple[Revocation, ...] = ()) -> View:
        facts = [
            Checkpoint(id=id, by=b.by, after=b.after, signature_good=True, token=b.token, parents=b.parents)
            for id, b in self.bodies.items()
        ]
        return resolve(
            session=SESSION, members=MEMBERS, records=[CREATE, *records], checkpoints=facts, revocations=revocations
        )

    def tips(self, view: View) -> tuple[Tip, ...]:
        return Lines(self.bodies).tips(view)


def record(name: str, kind: RecordKind, by: DeviceId, number: int, prev: str | None, head: str | None) -> Record:
    return Record(
        id=StatementId(name.encode()),
        by=by,
        after=None,
        signature_good=True,
        kind=kind,
        to=by,
        prev=None if prev is None else StatementId(prev.encode()),
        number=number,
        head=None if head is None else id_of(head),
    )


CREATE = record("r1", RecordKind.CREATE, A, 1, None, None)
TAKEN = record("r2", RecordKind.TAKEOVER, B, 2, "r1", "c1")


def apart() -> Apart:
    """The laptop (A) goes on by c2 and c3 while the desktop (B) has taken over at c1 and goes on by d1."""
    made = Apart()
    made.add("c0", A, "r1", turn=True)
    made.add("c1", A, "r1", "c0", effects={0: Progress.ASKED})
    made.add("c2", A, "r1", "c1", effects={0: Progress.ANSWERED}, turn=True)
    made.add("d1", B, "r2", "c1", effects={0: Progress.SETTLED, 1: Progress.ASKED})
    made.add("c3", A, "r1", "c2", effects={1: Progress.ASKED, 2: Progress.ANSWERED})
    return made


def test_two_devices_that_worked_apart() -> None:
    made = apart()
    main, other = made.tips(made.view(TAKEN))
    assert (main.id, main.main, main.by, main.fork, main.past) == (id_of("d1"), True, B, id_of("c1"), (id_of("d1"),))
    assert (main.turns, main.answered, main.open, main.devices) == (0, (0,), (1,), (B,))
    assert (other.id, other.main, other.by, other.fork) == (id_of("c3"), False, A, id_of("c1"))
    assert other.past == (id_of("c3"), id_of("c2")) and other.turns == 1
    assert (other.answered, other.open, other.devices) == ((0, 2), (1,), (A,))
    assert (other.first_ms, other.last_ms) == (3000, 5000)


def test_one_head_is_compared_with_nothing() -> None:
    made = Apart()
    made.add("c0", A, "r1", turn=True)
    made.add("c1", A, "r1", "c0", turn=True)
    (only,) = made.tips(made.view())
    assert only.main and only.fork is None and only.past == (id_of("c1"), id_of("c0"))
    assert only.turns == 1, "the first checkpoint begins the session, and ends no turn"


def test_a_split_line_has_no_main_head_and_each_side_is_told() -> None:
    made = Apart()
    made.add("c0", A, "r1")
    made.add("c1", A, "r1", "c0")
    made.add("c2", A, "r1", "c0")
    tips = made.tips(made.view())
    assert [tip.main for tip in tips] == [False, False]
    assert {tip.id for tip in tips} == {id_of("c1"), id_of("c2")} and {tip.fork for tip in tips} == {id_of("c0")}


def test_what_is_held_or_sealed_is_shown_beside_the_heads() -> None:
    made = apart()
    made.add("h1", B, "r9", "c1")
    made.add("h2", B, "r9", "h1")
    revoked = Revocation(id=StatementId(b"x"), by=B, after=None, signature_good=True, device=A, last=id_of("c2"))
    tips = {tip.id: tip for tip in made.tips(made.view(TAKEN, revocations=(revoked,)))}
    assert tips[id_of("h2")].kept is Kept.HELD and tips[id_of("h2")].past == (id_of("h2"), id_of("h1"))
    assert tips[id_of("c3")].kept is Kept.SEALED and id_of("h1") not in tips
    assert next(tip.kept for tip in tips.values()) is Kept.HEAD


def test_a_line_with_nothing_in_common_has_no_fork() -> None:
    made = apart()
    made.add("lone", A, "r1", "nowhere")
    tips = {tip.id: tip for tip in made.tips(made.view(TAKEN))}
    assert tips[id_of("lone")].fork is None and tips[id_of("lone")].past == (id_of("lone"),)


def test_joined_lines_part_where_both_last_stood() -> None:
    made = apart()
    made.add("j", B, "r2", "d1", "c2")
    tips = {tip.id: tip for tip in made.tips(made.view(TAKEN))}
    assert tips[id_of("c3")].fork == id_of("c2") and tips[id_of("c3")].past == (id_of("c3"),)
    assert tips[id_of("j")].past == (id_of("j"), id_of("d1"))
    assert tips[id_of("j")].devices == (B,)


def test_forks_and_pasts_over_random_graphs_are_what_their_definitions_say() -> None:
    several = 0
    for seed in range(60):
        dice = random.Random(seed)
        made = Apart()
        names: list[str] = []
        for number in range(25):
            name = sha256(b"%d %d" % (seed, number)).hexdigest()[:8]
            parents = dice.sample(names[-6:], min(len(names), dice.choice((0, 1, 1, 1, 2))))
            made.add(name, A, "r1", *parents)
            names.append(name)
        lines = Lines(made.bodies)
        up = {id: _up(made, id) for id in made.bodies}
        for one, other in (dice.sample(sorted(made.bodies), 2) for _ in range(20)):
            fork, shared = lines.fork(one, other), up[one] & up[other]
            assert (fork is None) == (not shared) and fork == lines.fork(other, one)
            if fork is not None:
                last = [id for id in shared if not any(id in up[child] for child in shared if child != id)]
                several += len(last) > 1
                assert fork in last and len(up[fork]) == max(len(up[id]) for id in last)
            past = lines.past(one, fork)
            assert set(past) == up[one] - (up[fork] if fork else set()) and len(past) == len(set(past))
            assert all(past.index(p) > past.index(id) for id in past for p in made.bodies[id].parents if p in past)
    assert several, "some lines were joined twice, so that a choice had to be made"


def _up(made: Apart, id: CheckpointId) -> set[CheckpointId]:
    return {id}.union(*(_up(made, parent) for parent in made.bodies[id].parents))
