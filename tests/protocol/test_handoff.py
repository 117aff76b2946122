"""A handoff, stage by stage: the table, the machine, messages and journals in bytes."""

from __future__ import annotations

import importlib.util
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from tests.protocol.mutate import mutated, mutated_bytes

from hhd_protocol import handoff, limits
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.handoff import (
    OVER,
    PENDING,
    TABLE,
    UNTAKEN,
    Act,
    Do,
    Event,
    Grant,
    Handoff,
    Happening,
    Needs,
    Offer,
    Output,
    Persist,
    Record,
    Send,
    Side,
    Stage,
    diagram,
    handle,
    recover,
    recovered,
)
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/handoff.json").read_text())
SPEC = (ROOT / "protocol/spec/handoff.md").read_text()
ME, PEER, THIRD = DeviceId(b"m" * 32), DeviceId(b"p" * 32), DeviceId(b"3" * 32)
TRANSFER, SESSION = TransferId(b"t" * 16), SessionId(StatementId(b"s" * 32))
HEAD, OTHER = CheckpointId(StatementId(b"h" * 32)), CheckpointId(StatementId(b"o" * 32))
OFFER = Offer(
    transfer=TRANSFER,
    session=SESSION,
    hhd="1",
    token=StatementId(b"k" * 32),
    head=HEAD,
    needs=Needs(size_bytes=1, memory_bytes=1),
)


def _maker() -> ModuleType:
    path = ROOT / "protocol/vectors/make_handoff_vectors.py"
    spec = importlib.util.spec_from_file_location("make_handoff_vectors", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = _maker()


def grant(by: DeviceId, to: DeviceId) -> Grant:
    return Grant(raw=b"release", by=by, to=to, session=SESSION, transfer=TRANSFER, head=HEAD)


def at(side: Side, stage: Stage, head: CheckpointId | None = HEAD) -> Handoff:
    """A handoff whose journal says `stage`."""
    record = Record(
        side=side, stage=stage, transfer=TRANSFER, session=SESSION, peer=PEER, head=head, release=b"release"
    )
    return Handoff(me=ME, record=record, offer=OFFER, head=head)


def event(side: Side, what: Happening) -> Event:
    """`what`, with all that belongs to it."""
    by, to = (ME, PEER) if side is Side.SOURCE else (PEER, ME)
    return Event(what=what, head=HEAD, grant=grant(by, to), why="why")


def kinds(outputs: list[Output]) -> list[str]:
    found = []
    for output in outputs:
        match output:
            case Persist():
                found.append("persist")
            case Send(message=message):
                found.append(f"send {message.is_about.value}")
            case Do(act=act):
                found.append(act.value)
    return found


# The table


def test_the_diagrams_in_the_spec_are_drawn_from_the_table() -> None:
    said = SPEC.split("<!-- table -->\n")[1].split("\n<!-- /table -->")[0]
    assert said == "\n".join(diagram()).strip()


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("what", Happening)
def test_the_machine_does_what_the_table_says_and_nothing_else(side: Side, stage: Stage, what: Happening) -> None:
    before = at(side, stage)
    after, outputs = handle(before, event(side, what))
    rows = [row for row in TABLE if row.side is side and stage in row.stages and row.what is what]
    if not rows:
        assert (after, outputs) == (before, [])
        return
    (row,) = rows
    assert after.stage is (row.to or stage)
    assert kinds(outputs) == [f"send {act.value}" if act.is_message else act.value for act in row.does]
    persisted = [output.record for output in outputs if isinstance(output, Persist)]
    assert persisted == ([after.record] if Act.PERSIST in row.does else [])


def test_what_is_persisted_stands_before_what_is_sent_or_done_and_a_new_stage_is_persisted() -> None:
    for row in TABLE:
        assert row.does.count(Act.PERSIST) == (row.to is not None)
        assert row.to is None or row.does[0] is Act.PERSIST


def test_nothing_leads_back_from_the_release_at_either_side() -> None:
    for row in TABLE:
        if row.side is Side.SOURCE and row.to is Stage.ABORTED:
            assert set(row.stages) <= set(PENDING)
        if row.side is Side.TARGET and row.to is Stage.ABORTED:
            assert set(row.stages) <= set(UNTAKEN)
        if Act.RESUME in row.does:
            assert not set(row.stages) - set(PENDING)


def test_from_every_stage_that_is_not_over_something_is_done_when_it_is_due() -> None:
    for row in TABLE:
        for stage in {row.to} - {None, Stage.NONE}:
            assert stage in OVER or any(
                other.what is Happening.DUE and stage in other.stages for other in TABLE if other.side is row.side
            ), stage


# The machine


def test_a_release_to_another_device_or_of_another_is_not_taken() -> None:
    before = at(Side.TARGET, Stage.READY)
    right = Event(what=Happening.RELEASE, grant=grant(PEER, ME))
    assert handle(before, right)[0].stage is Stage.TAKEN
    for wrong in (
        grant(PEER, THIRD),
        grant(THIRD, ME),
        replace(grant(PEER, ME), transfer=TransferId(b"x" * 16)),
        replace(grant(PEER, ME), transfer=None),
        replace(grant(PEER, ME), session=SessionId(StatementId(b"x" * 32))),
        None,
    ):
        assert handle(before, Event(what=Happening.RELEASE, grant=wrong)) == (before, [])


def test_who_was_told_that_another_took_it_does_not_believe_it_without_the_release() -> None:
    before = at(Side.SOURCE, Stage.RELEASED)
    assert handle(before, Event(what=Happening.TOOK, grant=grant(ME, THIRD)))[1] == []
    assert handle(before, Event(what=Happening.TOOK, grant=grant(ME, PEER)))[0].stage is Stage.ACKNOWLEDGED


def test_only_the_head_that_was_paused_at_is_released() -> None:
    before = at(Side.SOURCE, Stage.STAGED)
    for what in (Happening.DELIVERED, Happening.LOADED_THERE):
        assert handle(before, Event(what=what, head=OTHER)) == (before, [])
        assert handle(before, Event(what=what, head=HEAD))[1]


def test_rounds_go_on_until_one_is_short_or_there_were_enough() -> None:
    one = at(Side.SOURCE, Stage.ADMITTED, head=None)
    rounds = 0
    while one.stage is Stage.ADMITTED:
        one, outputs = handle(one, handoff.round_over(one, took_ms=500, head=HEAD))
        rounds += 1
        assert outputs
    assert rounds == limits.HANDOFF_ROUNDS_MAX
    short = at(Side.SOURCE, Stage.ADMITTED, head=None)
    event = handoff.round_over(short, took_ms=limits.HANDOFF_NEAR_MS, head=HEAD)
    assert handle(short, event)[0].stage is Stage.STAGED


def test_after_a_restart_a_source_pauses_and_stages_anew_and_says_what_it_last_said() -> None:
    assert kinds(handle(at(Side.SOURCE, Stage.OFFERED), Event(what=Happening.DUE))[1]) == ["send offer"]
    again, outputs = handle(at(Side.SOURCE, Stage.READY), Event(what=Happening.DUE))
    assert kinds(outputs) == ["pause"] and again.head is None
    again, outputs = handle(again, Event(what=Happening.PAUSED, head=OTHER))
    assert kinds(outputs) == ["stage"] and again.head == OTHER
    assert kinds(handle(at(Side.SOURCE, Stage.RELEASED), Event(what=Happening.DUE))[1]) == ["send release"]


def test_a_whole_handoff_goes_through_all_stages_between_two_machines() -> None:
    source = handoff.wished(me=ME, peer=PEER, offer=OFFER)
    target = handoff.unknown(me=PEER, side=Side.TARGET, peer=ME, transfer=TRANSFER, session=SESSION)
    journals: dict[Side, list[Record]] = {side: [] for side in Side}
    waiting: list[tuple[Side, Event]] = [(Side.SOURCE, Event(what=Happening.WISHED))]
    comes = {
        Act.CHECK: Event(what=Happening.FIT, where="/repo"),
        Act.LOAD: Event(what=Happening.LOADED, head=HEAD),
        Act.PAUSE: Event(what=Happening.PAUSED, head=HEAD),
        Act.SIGN: Event(what=Happening.SIGNED, grant=grant(ME, PEER)),
        Act.CLEAN: Event(what=Happening.CLEANED),
    }
    opened = False
    while waiting:
        side, what = waiting.pop(0)
        one = source if side is Side.SOURCE else target
        one, outputs = handle(one, what)
        source, target = (one, target) if side is Side.SOURCE else (source, one)
        for output in outputs:
            match output:
                case Persist(record=record):
                    kept = journals[side]
                    kept.append(handoff.decode_record(handoff.encode_record(record)))
                case Send(message=message):
                    read = handoff.decode_message(handoff.encode_message(message))
                    other = Side.TARGET if side is Side.SOURCE else Side.SOURCE
                    carried = grant(ME, PEER) if hasattr(read, "statement") else None
                    assert not isinstance(read, handoff.Aside)
                    waiting.append((other, handoff.event_of(read, grant=carried)))
                case Do(act=Act.STAGE):
                    waiting.append((side, handoff.round_over(one, took_ms=1, head=HEAD)))
                case Do(act=Act.OPEN):
                    opened = True
                    assert journals[Side.SOURCE][-1].stage is Stage.RELEASED
                case Do(act=act) if act in comes:
                    waiting.append((side, comes[act]))
    assert opened
    assert [r.stage.value for r in journals[Side.SOURCE]] == (
        ["offered", "admitted", "staged", "ready", "released", "acknowledged", "cleaned"]
    )
    assert [r.stage.value for r in journals[Side.TARGET]] == ["admitted", "ready", "taken", "acknowledged", "cleaned"]
    for kept in journals.values():
        last = recover(kept)
        assert last is not None and recovered(last, me=ME).over


# The journal


def test_a_journal_is_refused_that_the_table_could_not_have_written() -> None:
    released = at(Side.SOURCE, Stage.RELEASED).record
    offered = at(Side.SOURCE, Stage.OFFERED).record
    aborted = at(Side.SOURCE, Stage.ABORTED).record
    assert recover([]) is None
    assert recover([offered, aborted]) == aborted
    for wrong in (
        [aborted],
        [offered, replace(aborted, peer=THIRD)],
        [offered, replace(aborted, side=Side.TARGET)],
        [offered, at(Side.SOURCE, Stage.CLEANED).record],
        [offered, replace(at(Side.SOURCE, Stage.ADMITTED).record), released, aborted],
        [at(Side.TARGET, Stage.TAKEN).record, at(Side.TARGET, Stage.ABORTED).record],
    ):
        with pytest.raises(FormatError):
            recover(wrong)
    with pytest.raises(TooLargeError):
        recover([offered] * (limits.HANDOFF_RECORDS_MAX + 1))


# In bytes


@pytest.mark.parametrize("name", MADE.MESSAGES)
def test_messages_are_those_of_the_vectors(name: str) -> None:
    raw = bytes.fromhex(VECTORS["messages"][name])
    assert handoff.encode_message(MADE.MESSAGES[name]) == raw
    assert handoff.decode_message(raw) == MADE.MESSAGES[name]


@pytest.mark.parametrize("name", MADE.RECORDS)
def test_records_are_those_of_the_vectors(name: str) -> None:
    raw = bytes.fromhex(VECTORS["records"][name])
    assert handoff.encode_record(MADE.RECORDS[name]) == raw
    assert handoff.decode_record(raw) == MADE.RECORDS[name]


def test_the_vectors_are_of_every_message_and_the_spec_has_a_rule_for_each() -> None:
    about = {one.is_about for one in MADE.MESSAGES.values() if not isinstance(one, handoff.Aside)}
    asides = {one.kind for one in MADE.MESSAGES.values() if isinstance(one, handoff.Aside)}
    assert asides == {"probe", "inquire", "please", "told", "rehearse", "rehearsed", "begun"}
    messages = set(list(Happening)[list(Happening).index(Happening.OFFER) :])
    assert about == messages
    for kind in {kind.value for kind in messages} | asides:
        assert re.search(rf"^{kind} +=", SPEC, re.M), kind


def test_a_word_without_notes_is_as_it_was_before_there_were_any_and_has_one_encoding() -> None:
    raw = decode(bytes.fromhex(VECTORS["messages"]["told"]))
    assert isinstance(raw, list) and isinstance(raw[4], dict) and "notes" not in raw[4]
    with pytest.raises(FormatError):
        handoff.decode_message(encode([*raw[:4], {**raw[4], "notes": []}]))
    with pytest.raises(FormatError):
        handoff.decode_message(encode([*raw[:4], {**raw[4], "notes": "one"}]))
    begun = decode(bytes.fromhex(VECTORS["messages"]["begun"]))
    assert isinstance(begun, list) and isinstance(begun[4], dict)
    with pytest.raises(FormatError):  # The others' fields are all there, always.
        handoff.decode_message(encode([*begun[:4], {"runs": True}]))
    assert handoff.bounded("/home/\udcff") == "/home/?"


def test_the_bounds_in_the_spec_are_those_of_the_code() -> None:
    assert f"{limits.HANDOFF_MESSAGE_BYTES_MAX:,} bytes" in SPEC
    assert f"{limits.HANDOFF_TEXT_BYTES_MAX:,} bytes, a list {limits.HANDOFF_NAMES_MAX}" in SPEC
    assert f"at most {limits.HANDOFF_RECORDS_MAX} records" in SPEC
    assert f"At most {limits.HANDOFF_INQUIRIES_MAX} are looked into at a time" in SPEC
    assert f", {limits.HANDOFF_INQUIRIES_PEER_MAX} of them of one device" in SPEC
    assert f"at most {limits.HANDOFF_OFFERED_MAX} handoffs that are offered" in SPEC
    assert f"looks into {limits.HANDOFF_CHECKED_MAX} of its offers at a time" in SPEC
    kept = limits.HANDOFF_GIVEN_UP_KEPT
    assert f"once {2 * kept} of that device did" in SPEC and f"for the last {kept}" in SPEC
    assert f"At most {limits.HANDOFF_PLEASED_MAX} `please`" in SPEC


def test_a_newer_version_says_so_and_what_passes_a_bound_is_too_large() -> None:
    raw = decode(handoff.encode_message(MADE.MESSAGES["ask"]))
    assert isinstance(raw, list)
    with pytest.raises(NewerVersionError):
        handoff.decode_message(encode([2, *raw[1:]]))
    with pytest.raises(NewerVersionError):
        handoff.decode_record(encode([2, b"whatever comes then"]))
    for wrong in (replace(MADE.MESSAGES["abort"], why="x" * 5000), replace(MADE.MESSAGES["admit"], notes=("",) * 65)):
        with pytest.raises(TooLargeError):
            handoff.encode_message(wrong)
    with pytest.raises(FormatError):
        handoff.decode_message(encode([1, "ask", b"short", SESSION, {}]))
    with pytest.raises(FormatError):
        handoff.decode_message(encode([1, "ask", TRANSFER, SESSION, {"transfer": TRANSFER}]))


@pytest.mark.parametrize("kind", ["messages", "records"])
def test_what_is_nearly_right_is_refused_or_comes_back_as_the_same_bytes(kind: str) -> None:
    read = handoff.decode_message if kind == "messages" else handoff.decode_record
    write = handoff.encode_message if kind == "messages" else handoff.encode_record
    dice, refused = random.Random(5), 0
    for raw in (bytes.fromhex(one) for one in VECTORS[kind].values()):
        for _ in range(400):
            wrong = encode(mutated(decode(raw), dice)) if dice.random() < 0.7 else mutated_bytes(raw, dice)
            try:
                value = read(wrong)
            except FormatError:
                refused += 1
                continue
            assert write(value) == wrong  # type: ignore[operator]
    assert refused > 1000
