"""What a peer sends costs little to refuse, and what it can slip in never breaks reading."""

from __future__ import annotations

import contextlib
import hashlib
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from automerge.core import ROOT, ObjType, ScalarType
from automerge.core import Document as Automerge
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.registry import registers, sync
from hhd.registry.document import Document
from hhd.registry.door import insist_on_bounded_changes, insist_on_bounded_message
from hhd.registry.registry import Registry
from hhd.registry.sync import Peer
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import SessionId, StatementId

from .memory import Memory, registry

SESSION = SessionId(StatementId(hashlib.sha256(b"one").digest()))
OTHER = SessionId(StatementId(hashlib.sha256(b"two").digest()))


def _leb(number: int) -> bytes:
    out = bytearray()
    while True:
        out.append((number & 0x7F) | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)


def _chunk(kind: int, body: bytes) -> bytes:
    named = bytes([kind]) + _leb(len(body)) + body
    return bytes.fromhex("856f4a83") + hashlib.sha256(named).digest()[:4] + named


def _change(columns: list[tuple[int, bytes]], *, others: int = 0, message: bytes = b"", deps: int = 0) -> bytes:
    head = _leb(deps) + b"\x08actoract" + b"\x01\x01\x00" + _leb(len(message)) + message + _leb(others)
    described = b"".join(_leb(spec) + _leb(len(column)) for spec, column in columns)
    return _chunk(1, head + _leb(len(columns)) + described + b"".join(column for _, column in columns))


def _message(chunk: bytes, *, heads: int = 0, bloom: bytes = b"") -> bytes:
    have = _leb(1) + _leb(0) + _leb(len(bloom)) + bloom
    return b"\x42" + _leb(heads) + _leb(0) + have + _leb(1) + _leb(len(chunk)) + chunk


RUN = _leb(2**38) + b"\x01a"
BOMB = zlib.compressobj(9, zlib.DEFLATED, -15)


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(_change([(0x15, RUN)]), id="a run of billions of keys"),
        pytest.param(_change([(0x42, _leb(2**38) + b"\x01")]), id="a run of billions of actions"),
        pytest.param(_change([(0x34, _leb(2**40))]), id="billions of rows that are not inserted"),
        pytest.param(_change([(0x42, b"\x00" + _leb(2**40))]), id="billions of nulls"),
        pytest.param(_change([(0x70, b"\x7f" + _leb(2**40))]), id="billions of entries replaced by one"),
        pytest.param(_change([(0x56, b"\x7f" + _leb(2**40 * 16 + 6))]), id="a value of a terabyte"),
        pytest.param(_change([(0x15, b"\x01" + _leb(10**6) + b"k" * 10**6)]), id="a key of a megabyte"),
        pytest.param(_change([(0x15, b"\x01" + _leb(2**60))]), id="a key longer than the change"),
        pytest.param(_change([], message=b"m" * 10**5), id="a comment of a hundred kilobytes"),
        pytest.param(_change([], others=2**50), id="endless actors"),
        pytest.param(_change([], deps=2**50), id="endless dependencies"),
        pytest.param(_chunk(2, zlib.compressobj(9, zlib.DEFLATED, -15).compress(b"")), id="a packed change of nothing"),
        pytest.param(_chunk(2, BOMB.compress(bytes(2**28)) + BOMB.flush()), id="a packed change of a quarter gigabyte"),
        pytest.param(_chunk(0, b"whatever"), id="a whole document"),
        pytest.param(_change([(0x1D, b"")]), id="a packed column"),
        pytest.param(_change([(0x15, b"\xff" * 30)]), id="a number without an end"),
    ],
)
def test_what_would_cost_much_is_refused_before_it_is_read(chunk: bytes) -> None:
    assert len(chunk) < 2_000_000
    with pytest.raises(FormatError):
        insist_on_bounded_changes(chunk)
    with pytest.raises(FormatError):
        insist_on_bounded_message(_message(chunk))


@pytest.mark.parametrize(
    "bloom",
    [
        _leb(1) + _leb(10) + _leb(2**32 - 1) + b"\0\0",
        _leb(2**50) + b"\x0a\x07\0",
        b"\x01\x00\x07",
        b"\x01\x0a",
        b"\x80",
    ],
)
def test_a_filter_that_asks_for_endless_work_is_refused(bloom: bytes) -> None:
    with pytest.raises(FormatError):
        insist_on_bounded_message(_message(_change([]), bloom=bloom))


def test_a_message_past_its_bound_is_refused_and_an_honest_one_is_not() -> None:
    with pytest.raises(TooLargeError):
        insist_on_bounded_message(b"\x42" + bytes(17 * 1024 * 1024))
    insist_on_bounded_message(_message(_change([]), bloom=b"\x01\x0a\x07\x00\x00"))


def _talk(one: Registry, other: Registry) -> list[bytes]:
    """Let two talk until equal; return what the first said."""
    said: list[bytes] = []
    here, there = Peer.of(sync.summary(other)), Peer.of(sync.summary(one))
    for _ in range(20):
        first, second = sync.message_for(one, here), None
        if first is not None:
            said.append(first)
            sync.receive(other, there, first)
        if (second := sync.message_for(other, there)) is not None:
            sync.receive(one, here, second)
        if first is None and second is None:
            return said
    raise AssertionError


def test_every_honest_change_passes_also_large_and_packed_ones() -> None:
    (one, _), (other, _) = registry("laptop"), registry("desktop")
    dice = random.Random(1)
    for number in range(60):
        session = SessionId(StatementId(dice.randbytes(32)))
        one.rename(session, "".join(dice.choices("abcä中\U0001f680", k=250)))
        other.archive(session, bool(number % 2))
    assert len(_talk(one, other)) > 0
    assert one.refresh().heads() == other.refresh().heads()


MESSAGES: list[bytes] = []


def _messages() -> list[bytes]:
    """Valid messages of each kind, with changes in them."""
    if not MESSAGES:
        (one, _), (other, _) = registry("laptop", 1), registry("desktop", 1)
        one.rename(SESSION, "of the peer")
        other.rename(OTHER, "ours")
        MESSAGES.extend([sync.summary(one), sync.copy(one), *_talk(one, other)])
    return MESSAGES


def _mutated(raw: bytes, dice: random.Random) -> bytes:
    raw = bytes(raw)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(raw) + 1)
        kind = dice.randrange(5)
        if kind == 0:
            raw = raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]
        elif kind == 1:
            raw = raw[:at]
        elif kind == 2:
            raw = raw[:at] + dice.randbytes(dice.randrange(1, 9)) + raw[at:]
        elif kind == 3:
            end = dice.randrange(at, len(raw) + 1)
            raw = raw[:at] + raw[end:]
        else:
            raw = raw[:at] + raw[at : at + 8] + raw[at:]
    return raw


def _inside(raw: bytes, dice: random.Random) -> bytes:
    """Change what is inside the envelope, so that the envelope itself holds."""
    fields = decode(raw)
    assert isinstance(fields, list)
    body = fields[4]
    if isinstance(body, bytes):
        fields[4] = _mutated(body, dice)
    elif isinstance(body, list) and isinstance(body[1], list) and body[1] and isinstance(body[1][0], bytes):
        body[1][0] = _mutated(body[1][0], dice)
    return encode(fields)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(0, 9))
def test_nothing_but_a_format_error_comes_of_any_message(seed: int, how: int) -> None:
    _bears(seed, how)


@pytest.mark.long
@settings(deadline=None, max_examples=3000)
@given(st.integers(0, 2**32), st.integers(0, 9))
def test_nothing_but_a_format_error_comes_of_many_messages(seed: int, how: int) -> None:
    _bears(seed, how)


def _bears(seed: int, how: int) -> None:
    dice = random.Random(seed)
    raw = dice.choice(_messages())
    raw = dice.randbytes(dice.randrange(200)) if how == 0 else _inside(raw, dice) if how > 4 else _mutated(raw, dice)
    one, shelf = registry("phone")
    one.rename(OTHER, "kept")
    for reader in (sync.receive, lambda registry, _, message: sync.merge_from(registry, message)):
        with contextlib.suppress(FormatError):
            reader(one, Peer(), raw)
        titles = {one.title(OTHER)} | {claim.text for asked in one.questions() for claim in asked.claims}
        assert "kept" in titles
        assert Registry(shelf).refresh().heads() == one.refresh().heads()
        sync.message_for(one, Peer.of(sync.summary(one)))


def _poisoned(put: Callable[[Any], object]) -> bytes:
    """A copy of the first document with a change that no hhd makes."""
    begin = Document.begin(0, {})
    inner = Automerge.load(begin._inner.save())
    inner.set_actor(b"poisoner")
    with inner.transaction() as change:
        put(change)
    made = Document(0, inner, begin.base)
    changes: list[object] = list(made.changes())
    return encode([1, 0, made.base, list(made.heads()), [{}, changes]])  # type: ignore[list-item]


def _key(attribute: str, number: int = 1) -> str:
    name = registers.register(registers.session_subject(SESSION), attribute)
    return f"{name}/{registers.writer(Memory('desktop').device, b'abc')}/{number}"


def _deep(change: Any) -> None:
    place = ROOT
    for _ in range(200):
        place = change.put_object(place, "deeper", ObjType.Map)


def _inserted(change: Any) -> None:
    change.insert(change.put_object(ROOT, _key("t"), ObjType.List), 0, ScalarType.Str, "x")


FOREIGN = {
    "a list where text belongs": lambda c: c.put_object(ROOT, _key("t"), ObjType.List),
    "a list with something in it": _inserted,
    "a map where text belongs": lambda c: c.put_object(ROOT, _key("t"), ObjType.Map),
    "rich text where text belongs": lambda c: c.put_object(ROOT, _key("t"), ObjType.Text),
    "a number where text belongs": lambda c: c.put(ROOT, _key("t"), ScalarType.Int, 5),
    "a fraction where text belongs": lambda c: c.put(ROOT, _key("t"), ScalarType.F64, 0.5),
    "a flag where text belongs": lambda c: c.put(ROOT, _key("a"), ScalarType.Boolean, True),
    "bytes where text belongs": lambda c: c.put(ROOT, _key("t"), ScalarType.Bytes, b"\xff"),
    "a title of a megabyte": lambda c: c.put(ROOT, _key("t"), ScalarType.Str, "x" * 10**6),
    "a key of a megabyte": lambda c: c.put(ROOT, "x" * 10**6, ScalarType.Str, "x"),
    "nesting without end": _deep,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_no_hhd_can_write_does_not_come_in(name: str) -> None:
    one, shelf = registry()
    one.rename(OTHER, "ours")
    pieces = list(shelf.pieces)
    with pytest.raises(FormatError):
        sync.merge_from(one, _poisoned(FOREIGN[name]))
    assert shelf.pieces == pieces and one.title(OTHER) == "ours" and one.title(SESSION) is None
    assert sync.merge_from(one, _poisoned(lambda c: c.put(ROOT, _key("t"), ScalarType.Str, "a title")))
    assert one.title(SESSION) == "a title"


@pytest.mark.parametrize("kind", range(16))
def test_of_values_only_texts_come_in(kind: int) -> None:
    """Also those that the Python face of automerge cannot make, and panics when it reads: counters, times."""
    raw = _change(
        [(0x15, b"\x7f\x01k"), (0x34, b"\x01"), (0x42, b"\x7f\x01"), (0x56, b"\x7f" + _leb(16 + kind)), (0x57, b"x")]
    )
    if kind in (0, 6):
        insist_on_bounded_changes(raw)
    else:
        with pytest.raises(FormatError):
            insist_on_bounded_changes(raw)


POISON = {
    "nothing where text belongs": lambda c: c.put(ROOT, _key("t"), ScalarType.Null, None),
    "a text of four thousand bytes": lambda c: c.put(ROOT, _key("t"), ScalarType.Str, "x" * 4000),
    "a title of nothing": lambda c: c.put(ROOT, _key("t"), ScalarType.Str, ""),
    "a flag that is neither": lambda c: c.put(ROOT, _key("a"), ScalarType.Str, "yes"),
    "a head that is none": lambda c: c.put(ROOT, _key("p"), ScalarType.Str, "A" * 42 + "B"),
    "a device that is none": lambda c: c.put(ROOT, _key("b"), ScalarType.Str, "\u202e" * 43),
    "an unknown key": lambda c: c.put(ROOT, "\x00/../\u202e", ScalarType.Str, "x"),
    "a key that is almost one": lambda c: c.put(ROOT, _key("t") + "0" * 20, ScalarType.Str, "x"),
    "a number that is not ascii": lambda c: c.put(ROOT, _key("t")[:-1] + "٣", ScalarType.Str, "x"),
    "another mark": lambda c: c.put(ROOT, "hhd/registry", ScalarType.Str, "nonsense"),
    "no mark": lambda c: c.delete(ROOT, "hhd/registry"),
}


@pytest.mark.parametrize("name", POISON)
def test_what_no_hhd_writes_is_passed_over_and_gone_with_the_history(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, shelf = registry()
    one.rename(OTHER, "ours")
    assert sync.merge_from(one, _poisoned(POISON[name]))
    for _ in range(2):
        assert one.title(OTHER) == "ours" and one.title(SESSION) is None
        assert one.facts(SESSION) == registry()[0].facts(SESSION) and not one.questions()
        assert one.belongs_on(SESSION) is None and not shelf.shown.sessions.get(registers.session_subject(SESSION))
        one.rename(OTHER, "other")
        one.rename(OTHER, "ours")
        one = Registry(shelf)
    assert one.rename(SESSION, "now it has one").after == "now it has one" == one.title(SESSION)
    monkeypatch.setattr("hhd.registry.registry.HISTORY_MIN", 1)
    one.rename(OTHER, "begun anew")
    keys = {key for key, _ in one.refresh().entries()} - {"hhd/registry"}
    assert keys == set(one._registers.entries())


def test_an_attribute_of_a_newer_hhd_is_kept_when_the_history_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = registry()
    sync.merge_from(one, _poisoned(lambda c: c.put(ROOT, _key("colour"), ScalarType.Str, "blue")))
    monkeypatch.setattr("hhd.registry.registry.HISTORY_MIN", 1)
    one.rename(OTHER, "begun anew")
    assert one.refresh().number == 1 and (_key("colour"), "blue") in one.refresh().entries()


def test_a_number_that_leaves_no_room_does_not_stop_the_one_it_was_made_up_for() -> None:
    one, shelf = registry()
    one.rename(OTHER, "first")
    sync.merge_from(one, _poisoned(lambda c: c.put(ROOT, f"c/{one._writer}/{10**15 - 1}", ScalarType.Str, "")))
    one.rename(OTHER, "second")
    assert one.title(OTHER) == Registry(shelf).title(OTHER) == "second" and not one.questions()
