"""What is known of a session grows: at every step it answers as if all of it had just been read."""

from __future__ import annotations

import random

import pytest
from tests.protocol.histories import KINDS, MEMBERS, History, arriving

from hhd_protocol.fencing import Resolved
from hhd_protocol.holding import Known
from hhd_protocol.holding.own_line import OwnLine
from hhd_protocol.ids import EffectId, StatementId
from hhd_protocol.statements import Checkpoint, Fact, Intent, Progress

LENGTH, SEEDS = 30, range(60)
ROUND = (Progress.ASKED, None, Progress.ANSWERED)


def history(seed: int, calm: float) -> History:
    made = History(seed, calm=calm)
    for _ in range(LENGTH):
        made.grow()
    return made


def anew(session: StatementId, facts: list[Fact]) -> Known:
    return Known(session=session, members=MEMBERS, statements={fact.id: fact for fact in facts}, kinds=KINDS)


def effects(known: Known) -> set[EffectId]:
    spoken = {e for s in known.statements.values() if isinstance(s, Checkpoint) for e in s.effects}
    return spoken | {s.effect for s in known.statements.values() if isinstance(s, Intent)}


def answers(known: Known, tip: StatementId | None, seen: set[EffectId]) -> list[object]:
    """All that a part asks, in a form that compares."""
    tokens = [record.id for record in known.records]
    line = known.line(tip)
    return [
        dict(known.statements),
        tokens,
        set(known.signers),
        known.view,
        [dict(known.progress(head)) for head in [*sorted(known.view.heads), known.view.main]],
        (line.ids, line.ends, line.sound, {(e, t) for e in seen for t in tokens if line.begun(e, t)}),
        [[one.id for one in known.strays(device, tip)] for device in sorted(MEMBERS)],
        [known.followers(device, tip) for device in sorted(MEMBERS)],
    ]


@pytest.mark.parametrize("calm", [0.5, 0.97])
def test_what_grew_answers_as_what_was_read_at_once(calm: float) -> None:
    for seed in SEEDS:
        made, here = history(seed, calm), list[Fact]()
        known, earlier = anew(made.session, []), list[tuple[Known, int, StatementId]]()
        for batch in arriving(made.facts, random.Random(seed)):
            here += [fact for fact in batch if fact not in here]
            known = known.plus(batch)
            tip = here[-1].id
            seen = effects(known)
            assert answers(known, tip, seen) == answers(anew(made.session, here), tip, seen), (seed, len(here))
            earlier.append((known, len(here), tip))
        for known, count, tip in random.Random(seed).sample(earlier, 3):  # A value stays what it was.
            assert answers(known, tip, seen) == answers(anew(made.session, here[:count]), tip, seen), (seed, count)


def test_what_a_checkpoint_would_leave_in_doubt_is_what_it_leaves_in_doubt() -> None:
    found = {True: 0, False: 0}
    for seed in SEEDS:
        made = history(seed, (0.5, 0.8, 0.97)[seed % 3])
        known = anew(made.session, made.facts)
        view = known.view
        if view.token is None or view.main is None or view.owner is None or view.owner_revoked:
            continue
        for effect in sorted(effects(known)):
            for said in Progress:
                to_come = Checkpoint(
                    id=StatementId(b"to come".ljust(32)),
                    by=view.owner,
                    after=StatementId(b"not here".ljust(32)),
                    signature_good=True,
                    token=view.token.id,
                    parents=(view.main,),
                    effects={effect: said},
                )
                would = known.is_uncertain(effect, to_come.effects)
                assert would == (effect in anew(made.session, [*made.facts, to_come]).view.uncertain), (seed, said)
                found[would] += 1
            assert known.is_uncertain(effect, {}) == (effect in view.uncertain)
    assert min(found.values()) > 50, found


def test_a_step_late_in_a_session_reads_nothing_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(1, 1.0)
    sound = [fact for fact in made.facts if fact.signature_good]
    begun = 0

    class Counted(OwnLine):
        def __init__(self) -> None:
            nonlocal begun
            begun += 1
            super().__init__()

    def sorted_anew(_: Resolved) -> object:
        raise AssertionError("all of it was sorted")

    first = anew(made.session, sound[:5])
    (create,) = first.records
    monkeypatch.setattr("hhd_protocol.holding.known.OwnLine", Counted)
    monkeypatch.setattr(Resolved, "_sorted", sorted_anew)
    at = tip = first.view.main
    by = create.to
    assert at is not None and tip is not None
    first.line(tip)
    begun = 0
    for number in range(60):
        effect, said = EffectId((number // 3).to_bytes(32, "big")), ROUND[number % 3]
        id = StatementId(b"step".ljust(28) + number.to_bytes(4, "big"))
        if said is None:
            fact: Fact = Intent(id=id, by=by, after=tip, signature_good=True, effect=effect, token=create.id)
        else:
            fact = Checkpoint(
                id=id, by=by, after=tip, signature_good=True, token=create.id, parents=(at,), effects={effect: said}
            )
            at = id
        first = first.plus([fact])
        tip = id
        assert first.view.main == at and first.line(tip).tip == tip
        assert first.line(tip).begun(effect, create.id) is (said is None)
        assert (first.progress(at)[effect] is Progress.ANSWERED) is (number % 3 == 2)
        assert not first.is_uncertain(effect, {effect: Progress.ASKED})
    assert begun == 0
