"""The statements of a store's sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.conftest import SEED, Memory

from hhd.store.check import Check
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.bodies import CreateBody, IntentBody, TombstoneBody, covering
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, FamilyId, Incarnation, SessionId, Sha256, StatementId
from hhd_protocol.lineage import Signed, sign

LAPTOP, DESKTOP = SEED, bytes(range(1, 33))
SHA = Sha256(bytes(32))


def create(seed: bytes = LAPTOP, opening: bytes = bytes(16)) -> Signed:
    body = CreateBody(
        session=None,
        by=device_id(public_key(seed)),
        after=None,
        seq=0,
        incarnation=Incarnation(opening),
        at_ms=0,
        family=FamilyId(bytes(16)),
    )
    return sign(body, seed)


def intent(store: Store, session: SessionId, token: StatementId, position: int, *, seed: bytes = LAPTOP) -> Signed:
    device = device_id(public_key(seed))
    before = store.statements.tip(session, device)
    body = IntentBody(
        session=session,
        by=device,
        after=before.id if before else None,
        seq=before.body.seq + 1 if before else 0,
        incarnation=store.incarnation,
        at_ms=1,
        token=token,
        position=position,
        op="tool",
        request=SHA,
    )
    return sign(body, seed)


def recorder(store: Store, token: StatementId, made: list[Signed] | None = None):
    """What signs the checkpoints of a line under `token`, as this device."""

    def record(checkpoint: Checkpoint) -> bytes:
        before = store.statements.tip(checkpoint.session, store.device)
        assert before is not None
        body = checkpoint.body(
            by=store.device, after=before.id, seq=before.body.seq + 1, incarnation=store.incarnation, token=token
        )
        signed = sign(body, LAPTOP)
        if made is not None:
            made.append(signed)
        return signed.raw

    return record


@pytest.fixture
def owned(store: Store) -> SessionId:
    record = create(opening=store.incarnation)
    store.create_session(record.session)
    store.statements.add(record.session, record.raw)
    return record.session


def test_statements_come_back_with_the_checkpoints_records_among_them(store: Store, owned: SessionId) -> None:
    made: list[Signed] = []
    line, memory = Line(store, owned), Memory(3)
    first = line.checkpoint(snapshot=memory.snapshot(), sign=recorder(store, owned, made))
    before = intent(store, owned, owned, 0)
    store.statements.add(owned, before.raw)
    memory.edit(1)
    second = line.checkpoint(snapshot=memory.snapshot(), journal=1, turn=True, sign=recorder(store, owned, made))
    assert [first, second] == [one.id for one in made]
    assert {one.id for one in store.statements.all(owned)} == {owned, first, before.id, second}
    assert store.statements.get(owned, second) == made[1]
    assert made[1].body.after == before.id and before.body.after == first


def test_a_statement_again_changes_nothing(store: Store, owned: SessionId) -> None:
    said = intent(store, owned, owned, 0)
    for _ in range(2):
        assert store.statements.add(owned, said.raw) == said
        assert [one.id for one in store.statements.all(owned)] == [owned, said.id]
    line = Line(store, owned)
    head = line.checkpoint(snapshot=Memory(1).snapshot(), sign=recorder(store, owned))
    record = store.record(head)
    assert record
    store.statements.add(owned, record)
    assert [one.id for one in store.statements.all(owned)] == [head, owned, said.id]


def test_the_tip_is_the_signers_last_statement_and_each_signer_has_one(store: Store, owned: SessionId) -> None:
    other = device_id(public_key(DESKTOP))
    assert store.statements.tip(owned, other) is None
    theirs = intent(store, owned, owned, 0, seed=DESKTOP)
    store.statements.add(owned, theirs.raw)
    assert store.statements.tip(owned, other) == theirs
    mine = store.statements.tip(owned, store.device)
    assert mine is not None and mine.id == owned
    later = intent(store, owned, owned, 0)
    store.statements.add(owned, later.raw)
    store.statements.add(owned, mine.raw)
    assert store.statements.tip(owned, store.device) == later


def test_an_older_statement_that_comes_late_is_not_the_tip(store: Store, owned: SessionId) -> None:
    first = intent(store, owned, owned, 0)
    second = sign(replace(first.body, after=first.id, seq=first.body.seq + 1), LAPTOP)
    for late in (second, first):
        store.statements.add(owned, late.raw)
        assert store.statements.tip(owned, store.device) == second


def _forged(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


def test_nobody_makes_this_device_say_something(store: Store, owned: SessionId) -> None:
    """Own signatures are not checked at each look, so none that does not hold gets in."""
    said = intent(store, owned, owned, 0)
    with pytest.raises(FormatError, match="signature"):
        store.statements.add(owned, _forged(said.raw))
    line, memory = Line(store, owned), Memory(1)
    with pytest.raises(FormatError, match="signature"):
        line.checkpoint(
            snapshot=memory.snapshot(),
            sign=lambda bare: _forged(recorder(store, owned)(bare)),
        )
    assert [one.id for one in store.statements.all(owned)] == [owned]
    store.statements.add(owned, said.raw)
    assert store.statements.tip(owned, store.device) == said


def test_a_record_whose_content_comes_later_is_kept_once_and_stays(store: Store, owned: SessionId) -> None:
    made: list[Signed] = []
    line = Line(store, owned)
    with pytest.raises(ZeroDivisionError), store.transaction():
        line.checkpoint(snapshot=Memory(1).snapshot(), sign=recorder(store, owned, made))
        raise ZeroDivisionError
    assert [one.id for one in store.statements.all(owned)] == [owned]
    store.statements.add(owned, made[0].raw)
    assert [one.id for one in store.statements.all(owned)] == [owned, made[0].id]
    assert store.checkpoint_ids(owned) == []


def test_a_record_that_came_before_its_content_is_kept_with_the_content_from_then_on(
    store: Store, owned: SessionId
) -> None:
    head = Line(store, owned).checkpoint(snapshot=Memory(1).snapshot(), sign=recorder(store, owned))
    checkpoint = store.checkpoint(head)
    with store.transaction():  # As if only the record had come.
        store.rows.delete("checkpoint", b"", head)
        store.rows.remove_log("checkpoints", owned)
    store.statements.add(owned, checkpoint.record)
    assert store.statements.raw(head) == checkpoint.record and store.checkpoint_ids(owned) == []
    store.commit(checkpoint)
    assert store.statements.raw(head) is None and store.record(head) == checkpoint.record
    assert sorted(one.id for one in store.statements.all(owned)) == sorted([owned, head])
    assert not Check(store).run().findings


def test_what_was_added_in_a_transaction_that_failed_is_not_there(store: Store, owned: SessionId) -> None:
    said = intent(store, owned, owned, 0)
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.statements.add(owned, said.raw)
        raise ZeroDivisionError
    assert store.statements.get(owned, said.id) is None
    tip = store.statements.tip(owned, store.device)
    assert tip is not None and tip.id == owned
    store.statements.add(owned, said.raw)
    assert store.statements.get(owned, said.id) == said


def test_a_statement_of_another_session_is_refused(store: Store, owned: SessionId) -> None:
    with pytest.raises(FormatError):
        store.statements.add(owned, create(DESKTOP).raw)
    with pytest.raises(FormatError):
        store.statements.add(owned, b"nonsense")
    assert len(store.statements.all(owned)) == 1


def test_a_statement_of_a_session_that_is_not_here_is_held(store: Store) -> None:
    record = create(DESKTOP)
    store.statements.add(record.session, record.raw)
    assert store.statements.all(record.session) == [record]
    assert store.sessions() == []


def tombstone(store: Store, session: SessionId) -> Signed:
    before = store.statements.tip(session, store.device)
    assert before is not None
    heads = store.heads(session)
    body = TombstoneBody(
        session=session,
        by=store.device,
        after=before.id,
        seq=before.body.seq + 1,
        incarnation=store.incarnation,
        at_ms=2,
        record=session,
        number=1,
        heads=tuple(sorted(heads)),
        covers=tuple(sorted(one[:8] for one in store.checkpoint_ids(session))),
    )
    return sign(body, LAPTOP)


def test_a_tombstone_and_the_end_of_the_own_chain_outlive_the_session(
    folder: Path, owned: SessionId, store: Store
) -> None:
    line = Line(store, owned)
    line.checkpoint(snapshot=Memory(1).snapshot(), sign=recorder(store, owned))
    mark = tombstone(store, owned)
    with store.transaction():
        store.statements.add(owned, mark.raw)
        store.remove_session(owned)
    store.close()
    with Store.open(folder, seed=SEED, limits=Limits(free_bytes_min=0)) as again:
        assert again.sessions() == [] and again.checkpoint_ids(owned) == []
        assert again.statements.removed() == [owned]
        assert again.statements.all(owned) == again.statements.tombstones(owned) == [mark]
        assert again.statements.tip(owned, again.device) == mark


def test_a_removed_session_comes_back_only_with_work_that_its_tombstones_do_not_cover(
    store: Store, owned: SessionId
) -> None:
    line, memory, made = Line(store, owned), Memory(1), list[Signed]()
    for _ in range(3):
        memory.edit(1)
        line.checkpoint(snapshot=memory.snapshot(), sign=recorder(store, owned, made))
    old, new = [one.id for one in made[:2]], made[2].id
    before = tombstone(store, owned)
    mark = sign(replace(before.body, covers=covering(old), heads=(CheckpointId(old[1]),)), LAPTOP)
    assert store.statements.uncovered(owned, [*old, new]) == {*old, new}, "there is no tombstone yet"
    with store.transaction():
        store.statements.add(owned, mark.raw)
        store.remove_session(owned)
    assert not store.statements.uncovered(owned, old) and not store.statements.uncovered(owned, [])
    assert store.statements.uncovered(owned, [*old, new]) == {new}


def test_a_session_removed_here_only_leaves_no_tombstone(store: Store, owned: SessionId) -> None:
    store.remove_session(owned)
    assert store.statements.all(owned) == [] and store.statements.removed() == []


def test_a_checkpoint_whose_record_says_something_else_is_not_kept(store: Store, owned: SessionId) -> None:
    line = Line(store, owned)
    sound = recorder(store, owned)
    changes = (
        {"journal": 5},
        {"turn": True},
        {"workspace": bytes(32)},
        {"at_ms": 7},
        {"parents": (CheckpointId(StatementId(bytes(32))),)},
        {"objects": ()},
        {"session": SessionId(StatementId(bytes(32)))},
    )
    for change in changes:
        with pytest.raises(FormatError):
            line.checkpoint(
                snapshot=Memory(1).snapshot(),
                sign=lambda bare, change=change: _signed_otherwise(store, owned, replace(bare, **change)),
            )
    with pytest.raises(FormatError):
        line.checkpoint(snapshot=Memory(1).snapshot(), sign=lambda bare: create().raw)
    assert store.checkpoint_ids(owned) == []
    line.checkpoint(snapshot=Memory(1).snapshot(), sign=sound)
    assert len(store.checkpoint_ids(owned)) == 1


def _signed_otherwise(store: Store, owned: SessionId, checkpoint: Checkpoint) -> bytes:
    before = store.statements.tip(owned, store.device)
    assert before is not None
    body = checkpoint.body(by=store.device, after=before.id, seq=1, incarnation=store.incarnation, token=owned)
    return sign(body, LAPTOP).raw
