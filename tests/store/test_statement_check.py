"""`hhd check` names each statement that is gone, forged, or says otherwise than its row; repair mends what it can."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.store.conftest import SEED, Memory
from tests.store.test_statements import DESKTOP, LAPTOP, create, intent, recorder, tombstone

from hhd.base.errors import UserError
from hhd.store.check import Check, Report
from hhd.store.checkpoints import Checkpoint, Payload
from hhd.store.layout import FILE
from hhd.store.line import Line
from hhd.store.repair import Repaired, repair
from hhd.store.statements import REMOVED, STATEMENT, STATEMENTS, TIP, TOMBSTONE, Statements
from hhd.store.store import CHECKPOINT, SESSION, Limits, Store
from hhd_protocol.codec import encode
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.ids import CheckpointId, ObjectName, SessionId, StatementId
from hhd_protocol.lineage import Signed, sign

LIMITS = Limits(free_bytes_min=0)
OTHER = device_id(public_key(DESKTOP))


def opened(folder: Path) -> Store:
    return Store.open(folder, seed=SEED, limits=LIMITS)


class Told:
    """A store with one owned session: a create record, two checkpoints, an intent of this device and one of another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with opened(folder) as store:
            record = create(opening=store.incarnation)
            self.session = record.session
            family = store.create_session(self.session).family
            body = replace(record.body, family=family)
            store.remove_session(self.session)
            record = sign(body, LAPTOP)
            self.session = record.session
            store.create_session(self.session)
            store.statements.add(self.session, record.raw)
            line, memory = Line(store, self.session), Memory(2)
            self.first = line.checkpoint(snapshot=memory.snapshot(), sign=recorder(store, self.session))
            self.intent = intent(store, self.session, self.session, 0)
            store.statements.add(self.session, self.intent.raw)
            memory.edit(1)
            self.second = line.checkpoint(snapshot=memory.snapshot(), turn=True, sign=recorder(store, self.session))
            self.theirs = intent(store, self.session, self.session, 0, seed=DESKTOP)
            store.statements.add(self.session, self.theirs.raw)

    def checked(self, *, read_data: bool = False) -> Report:
        with opened(self.folder) as store:
            return Check(store, read_data=read_data, keys={OTHER: public_key(DESKTOP)}).run()

    def mended(self) -> Repaired:
        result = repair(self.folder, seed=SEED, limits=LIMITS)
        assert not result.report.findings and not self.checked(read_data=True).findings
        return result


@pytest.fixture
def told(folder: Path) -> Told:
    made = Told(folder)
    assert not made.checked(read_data=True).findings
    return made


def test_a_sound_store_has_no_findings_and_repair_changes_nothing(told: Told) -> None:
    assert not told.checked().findings
    result = told.mended()
    assert not result.done and not result.lost


def written(store: Store, checkpoint: Checkpoint, id: CheckpointId) -> None:
    store.rows.put(CHECKPOINT, b"", id, checkpoint.encoded())


ZERO = CheckpointId(StatementId(bytes(32)))
OTHERWISE: dict[str, Callable[[Checkpoint], Checkpoint]] = {
    "parents": lambda c: replace(c, parents=(ZERO,)),
    "content": lambda c: replace(c, payload=Payload(logs={"claude": c.payload.image or pytest.fail("no image")})),
    "objects": lambda c: replace(c, objects=(*c.objects, ObjectName(bytes(32)))),
    "position in the journal": lambda c: replace(c, journal=7),
    "workspace": lambda c: replace(c, workspace=bytes(32)),
    "border of a turn": lambda c: replace(c, turn=not c.turn),
    "time": lambda c: replace(c, at_ms=c.at_ms + 1),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_row_that_says_otherwise_than_its_record_is_named(told: Told, what: str) -> None:
    with opened(told.folder) as store:
        written(store, OTHERWISE[what](store.checkpoint(told.second)), told.second)
    report = told.checked()
    assert [finding.what for finding in report.findings] == [f"checkpoint {told.second.hex()[:16]}"]
    assert f"another {what} than" in report.findings[0].problem
    assert report.harmed == {told.session: {told.second}}
    result = told.mended()
    assert any("the record is kept" in lost for lost in result.lost)
    with opened(told.folder) as store:
        assert store.checkpoint_ids(told.session) == [told.first]
        assert store.statements.get(told.session, told.second) is not None
        last = store.statements.tip(told.session, store.device)
        assert last is not None and last.id == told.second, "the chain goes on after what is kept"


def test_a_row_of_another_session_than_its_record_is_named(told: Told) -> None:
    with opened(told.folder) as store:
        other = create(DESKTOP)
        store.create_session(other.session)
        written(store, replace(store.checkpoint(told.second), session=other.session), told.second)
        store.rows.enlist("checkpoints", other.session, told.second)
    findings = told.checked().findings
    assert {finding.what for finding in findings} == {f"checkpoint {told.second.hex()[:16]}"}
    assert any("another session" in finding.problem for finding in findings)


def forged(signed: Signed, *, at: int = 0) -> bytes:
    mark = bytearray(signed.signature)
    mark[at] ^= 1
    return encode([signed.message, bytes(mark)])


@pytest.mark.parametrize("at", [0, 31, 63])
def test_a_checkpoint_with_a_forged_signature_is_named_and_given_up(told: Told, at: int) -> None:
    with opened(told.folder) as store:
        checkpoint = store.checkpoint(told.second)
        signed = checkpoint.signed()
        assert signed is not None
        false = replace(checkpoint, record=forged(signed, at=at))
        with store.transaction():
            store.rows.delete(CHECKPOINT, b"", told.second)
            written(store, false, false.id)
            store.rows.relist("checkpoints", told.session, [told.first, false.id])
    report = told.checked()
    assert [f.problem for f in report.findings if f.what == f"checkpoint {false.id.hex()[:16]}"] == [
        "its signature does not hold"
    ]
    assert report.harmed[told.session] == {false.id}
    assert any("its signature does not hold" in lost for lost in told.mended().lost)


def test_an_intent_with_a_forged_signature_is_named_and_given_up(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(told.folder) as store, monkeypatch.context() as patched:
        false = forged(told.intent)
        patched.setattr(Statements, "_insist_on_own", lambda *_: None)
        added = store.statements.add(told.session, false)
    report = told.checked()
    assert [(f.what, f.problem) for f in report.findings] == [
        (f"statement {added.id.hex()[:16]}", "its signature does not hold")
    ]
    assert told.session in report.harmed
    told.mended()
    with opened(told.folder) as store:
        assert store.statements.get(told.session, added.id) is None
        assert store.statements.get(told.session, told.intent.id) == told.intent


def test_a_signature_of_a_device_whose_key_is_not_known_is_no_finding(told: Told) -> None:
    with opened(told.folder) as store:
        store.statements.add(told.session, forged(told.theirs))
        assert not Check(store).run().findings
    assert told.checked().findings


def test_a_statement_that_is_gone_is_named_and_taken_off_the_list(told: Told) -> None:
    with opened(told.folder) as store:
        store.rows.delete(STATEMENT, b"", told.intent.id)
    assert [(f.what, f.problem) for f in told.checked().findings] == [
        (f"statement {told.intent.id.hex()[:16]}", "it is missing")
    ]
    assert any(told.intent.id.hex()[:16] in lost for lost in told.mended().lost)


def test_a_last_statement_that_is_gone_is_missed_although_nothing_names_it(told: Told) -> None:
    with opened(told.folder) as store:
        later = intent(store, told.session, told.session, 1)
        store.statements.add(told.session, later.raw)
        store.rows.delete(STATEMENT, b"", later.id)
        listed = [entry for entry in store.rows.listing(STATEMENTS, told.session) if entry != later.id]
        store.rows.relist(STATEMENTS, told.session, listed)
    assert [f.problem for f in told.checked().findings] == ["its last statement is missing"]
    assert any("last statement" in lost for lost in told.mended().lost)
    with opened(told.folder) as store:
        last = store.statements.tip(told.session, store.device)
        assert last is not None and last.id == told.second


def _rolled_back(folder: Path, at: str) -> tuple[Store, SessionId, list[Signed]]:
    """A store put back to an older copy of itself, and what a peer then gives back of this device: (create, intent).

    `at`: the copy was made with the session in it ("session") or without ("nothing").
    """
    saved = folder.with_name("saved")
    opened(folder).close()
    if at == "nothing":
        shutil.copytree(folder, saved)
    with opened(folder) as store:
        record = create(opening=store.incarnation)
        store.create_session(record.session)
        store.statements.add(record.session, record.raw)
    if at == "session":
        shutil.copytree(folder, saved)
    with opened(folder) as store:
        said = intent(store, record.session, record.id, 0)
        store.statements.add(record.session, said.raw)
        assert store.statements.tip(record.session, store.device) == said
    shutil.rmtree(folder)
    saved.rename(folder)
    return opened(folder), record.session, [record, said]


@pytest.mark.parametrize(("at", "tip"), [("session", 0), ("nothing", None)])
def test_an_own_statement_that_a_peer_gives_back_does_not_move_the_tip_of_a_rolled_back_store(
    folder: Path, at: str, tip: int | None
) -> None:
    store, session, lost = _rolled_back(folder, at)
    expected = None if tip is None else lost[tip]
    with store:
        if session not in store.sessions():
            store.create_session(session)
        for one in lost[::-1]:
            store.statements.add(session, one.raw)
        assert store.statements.tip(session, store.device) == expected
        assert {one.id for one in store.statements.all(session)} == {one.id for one in lost}
        assert not Check(store).run().findings
    repair(folder, seed=SEED, limits=LIMITS)
    with opened(folder) as store:
        assert store.statements.tip(session, store.device) == expected, "a repair does not hide the roll-back"
        mine = sign(replace(lost[1].body, after=lost[1].id, seq=2, incarnation=store.incarnation), LAPTOP)
        store.statements.add(session, mine.raw)
        assert store.statements.tip(session, store.device) == mine


def test_a_create_record_that_is_gone_is_missed(told: Told) -> None:
    with opened(told.folder) as store:
        store.rows.delete_both(STATEMENT, b"", told.session)
        listed = [entry for entry in store.rows.listing(STATEMENTS, told.session) if entry != told.session]
        store.rows.relist(STATEMENTS, told.session, listed)
    assert [f.problem for f in told.checked().findings] == ["the record that created it is missing"]


def test_one_copy_of_a_record_is_enough(told: Told) -> None:
    with opened(told.folder) as store:
        store.rows.delete(STATEMENT, b"", told.session)
        assert store.statements.get(told.session, told.session) is not None
        assert len(store.statements.all(told.session)) == 5


def test_lists_ends_and_session_are_made_again_from_statements(told: Told) -> None:
    with opened(told.folder) as store:
        mark = tombstone(store, told.session)
        store.statements.add(told.session, mark.raw)
        before = {one.id for one in store.statements.all(told.session)}
        with store.transaction():
            store.rows.remove_log(STATEMENTS, told.session)
            store.rows.remove_log(REMOVED, b"")
            store.rows.delete_both(TOMBSTONE, b"", told.session)
            store.rows.delete(TIP, told.session, store.device)
            store.rows.delete(SESSION, b"", told.session)
    assert told.checked().findings
    told.mended()
    with opened(told.folder) as store:
        assert {one.id for one in store.statements.all(told.session)} == before
        assert store.statements.tombstones(told.session) == [mark]
        assert store.statements.removed() == [told.session]
        last = store.statements.tip(told.session, store.device)
        assert last == mark


def test_a_session_of_which_only_the_create_record_is_left_is_made_again(folder: Path) -> None:
    with opened(folder) as store:
        family = store.create_session(SessionId(StatementId(bytes(32)))).family
        record = sign(replace(create().body, family=family), LAPTOP)
        store.create_session(record.session, family=family)
        store.statements.add(record.session, record.raw)
        with store.transaction():
            store.rows.delete(SESSION, b"", record.session)
        assert Check(store).run().findings
    result = repair(folder, seed=SEED, limits=LIMITS)
    assert not result.report.findings and record.session in result.report.sessions


def test_held_statements_and_tombstones_alone_are_checked(folder: Path) -> None:
    with opened(folder) as store:
        record = create(DESKTOP)
        store.statements.add(record.session, record.raw)
        assert not Check(store).run().findings
    assert not repair(folder, seed=SEED, limits=LIMITS).lost
    with opened(folder) as store:
        assert store.statements.all(record.session) == [record]


def flips(told: Told, count: int, seed: int, into: Path) -> int:
    """Flip one bit of the closed file `count` times; return how often it was noticed, else nothing may differ."""
    with opened(told.folder) as store:
        store.database.fold()
        before = store.statements.all(told.session)
    raw = (told.folder / FILE).read_bytes()
    dice, noticed = random.Random(seed), 0
    shutil.copytree(told.folder, into)
    for _ in range(count):
        at = dice.randrange(len(raw))
        for path in into.glob(f"{FILE}*"):
            path.unlink()
        (into / FILE).write_bytes(raw[:at] + bytes((raw[at] ^ 1 << dice.randrange(8),)) + raw[at + 1 :])
        try:
            with Store.open(into, seed=SEED, limits=LIMITS, inspect=True) as store:
                if Check(store).run().findings:
                    noticed += 1
                else:
                    assert store.statements.all(told.session) == before, at
        except UserError:
            noticed += 1
    return noticed


def test_sampled_flips_are_noticed_or_change_no_statement(told: Told, tmp_path: Path) -> None:
    assert flips(told, 40, 1, tmp_path / "flipped") > 5


@pytest.mark.long
def test_many_flips_are_noticed_or_change_no_statement(told: Told, tmp_path: Path) -> None:
    assert flips(told, 1500, 2, tmp_path / "flipped") > 200
