"""The effect journal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import codec, journal, limits
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import TRANSITIONS, Approval, Entry, Event, Journal, State

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol/spec/journal.md").read_text()
SHOWN = Sha256(bytes(range(32)))


def test_a_script_of_two_effects() -> None:
    book, before = Journal().ask("model", b"{}")
    assert before is None
    assert book.pending is not None and book.latest_reply == b""
    book = book.start()
    assert journal.decode(journal.encode(book)).pending == book.live, "a crash here is seen as started"
    book = book.answer(b"hello")
    assert book.pending is None and book.latest_reply == b"hello"
    book, before = book.ask("tool", b"[]")
    assert before is not None and (before.index, before.op, before.reply_bytes) == (0, "model", 5)
    assert journal.decode_settled(journal.encode_settled(before)) == before
    book = book.approve(Approval(shown=SHOWN, agreed=True)).start().doubt()
    assert book.live is not None and book.live.state is State.UNCERTAIN and book.live.starts == 1
    book = book.start().cancel().answer(b"")
    assert book.live is not None and book.live.cancelled and book.live.starts == 2


ACTS: dict[Event, Callable[[Journal], Journal]] = {
    Event.START: Journal.start,
    Event.ANSWER: lambda book: book.answer(b"r"),
    Event.DOUBT: Journal.doubt,
    Event.WITHDRAW: Journal.withdraw,
}


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_only_the_steps_of_the_table_are_possible(state: State, event: Event) -> None:
    reply = b"r" if state is State.ANSWERED else None
    book = Journal(live=Entry(index=0, op="tool", request=b"", state=state, starts=1, reply=reply))
    target = TRANSITIONS.get((state, event))
    if target is None:
        with pytest.raises(AssertionError):
            ACTS[event](book)
    else:
        live = ACTS[event](book).live
        assert live is not None and live.state is target


def test_a_second_effect_beside_a_pending_one_is_a_bug() -> None:
    book, _ = Journal().ask("tool", b"")
    with pytest.raises(AssertionError):
        book.ask("tool", b"")


ops = st.text("abz09_.-", min_size=1, max_size=64)
approvals = st.none() | st.builds(Approval, shown=st.binary(min_size=32, max_size=32).map(Sha256), agreed=st.booleans())


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    settled = draw(st.integers(0, 1000))
    if not settled and draw(st.booleans()):
        return Journal()
    state = draw(st.sampled_from(State))
    return Journal(
        settled=settled,
        live=Entry(
            index=settled,
            op=draw(ops),
            request=draw(st.binary()),
            state=state,
            starts=draw(st.integers(1, 9)),
            reply=draw(st.binary()) if state is State.ANSWERED else None,
            approval=draw(approvals),
            cancelled=draw(st.booleans()),
        ),
    )


@given(journals())
def test_what_is_encoded_decodes_to_itself(book: Journal) -> None:
    assert journal.decode(journal.encode(book)) == book
    if book.live is not None and not book.live.waiting:
        record = journal.settle(book.live)
        assert journal.decode_settled(journal.encode_settled(record)) == record


@given(journals(), st.data())
def test_a_damaged_journal_is_refused_or_is_another_valid_one(book: Journal, data: st.DataObject) -> None:
    raw = bytearray(journal.encode(book))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = journal.decode(bytes(raw))
    except FormatError:
        return
    assert journal.encode(found) == raw


LIVE: dict[codec.Value, codec.Value] = {0: 0, 1: "tool", 2: b"", 3: 1, 4: 0, 5: None, 6: None, 7: False}


def live(**changed: codec.Value) -> codec.Value:
    return {0: 0, 1: {**LIVE, **{int(key[1:]): value for key, value in changed.items()}}}


@pytest.mark.parametrize(
    ("damage", "value"),
    [
        ("not a map", []),
        ("a field missing", {0: 0}),
        ("a field too many", {0: 0, 1: None, 2: 0}),
        ("settled without live", {0: 3, 1: None}),
        ("another index", live(f0=1)),
        ("negative index", live(f0=-1)),
        ("true as a number", live(f0=False)),
        ("empty op", live(f1="")),
        ("long op", live(f1="a" * 65)),
        ("op with a control character", live(f1="a\x1b")),
        ("request as text", live(f2="")),
        ("unknown state", live(f3=5)),
        ("started, never begun", live(f3=2)),
        ("uncertain, never begun", live(f3=4)),
        ("answered without reply", live(f3=3)),
        ("reply without answer", live(f5=b"")),
        ("short digest", live(f6=[b"", True])),
        ("approval of one", live(f6=[bytes(32)])),
        ("flag as a number", live(f7=0)),
    ],
)
def test_nonsense_is_refused(damage: str, value: codec.Value) -> None:
    assert journal.decode(codec.encode(live())).pending is not None, "the undamaged one is taken"
    with pytest.raises(FormatError):
        journal.decode(codec.encode(value))


def test_the_vectors_decode_and_encode_as_they_say() -> None:
    vectors = json.loads((ROOT / "protocol/vectors/journal/journal.json").read_text())
    assert len(vectors) >= 5
    for vector in vectors:
        raw = bytes.fromhex(vector["hex"])
        if vector["valid"]:
            assert journal.encode(journal.decode(raw)) == raw, vector["name"]
        else:
            with pytest.raises(FormatError):
                journal.decode(raw)


def test_the_spec_names_the_numbers_and_the_table_of_the_code() -> None:
    named = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|$", SPEC, re.M))
    assert named and all(getattr(limits, name) == int(value) for name, value in named.items())
    rows = re.findall(r"^\| (asked|started|answered|uncertain) \| (\w+) \| (\w+) \|$", SPEC, re.M)
    table = {(State[a.upper()], Event(event)): State[b.upper()] for a, event, b in rows}
    assert table == TRANSITIONS
    assert [state.name.lower() for state in State] == ["asked", "started", "answered", "uncertain"]


def test_a_history_is_read_record_by_record_and_in_order() -> None:
    book = Journal()
    records = []
    for op in ("model", "tool", "model"):
        book, before = book.ask(op, b"q")
        records += [before] if before else []
        book = book.answer(b"a" * 300)
    raw = b"".join(map(journal.encode_settled, records))
    assert list(journal.decode_history(raw)) == records and len(records) == 2
    assert list(journal.decode_history(b"")) == []
    for damaged in (raw[:-1], raw + b"\x00", journal.encode_settled(records[1])):
        with pytest.raises(FormatError):
            list(journal.decode_history(damaged))
