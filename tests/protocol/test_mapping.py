"""Records as values: back as they were, and nothing that is not exactly one is taken for one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.mutate import mutated

from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.mapping import arguments, from_value, to_value


class Row(NamedTuple):
    kind: str
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Inner:
    id: str
    raw: bytes


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    count: int
    inner: Inner
    maybe: Inner | None
    rows: tuple[Row, ...]
    pairs: tuple[tuple[int, str], ...]
    files: tuple[str, ...] | None
    listed: list[int]
    there: bool


texts = st.text(st.characters(exclude_categories=()))
inner = st.builds(Inner, id=texts, raw=st.binary())
outer = st.builds(
    Outer,
    name=texts,
    count=st.integers(-(2**70), 2**70),
    inner=inner,
    maybe=st.none() | inner,
    rows=st.lists(st.builds(Row, kind=texts, failed=st.booleans())).map(tuple),
    pairs=st.lists(st.tuples(st.integers(), texts)).map(tuple),
    files=st.none() | st.lists(texts).map(tuple),
    listed=st.lists(st.integers()),
    there=st.booleans(),
)
ONE = Outer(
    name="a", count=3, inner=Inner(id="b", raw=b"c"), maybe=Inner(id="d", raw=b""), rows=(Row("e"), Row("f", True)),
    pairs=((1, "g"),), files=("h",), listed=[4], there=True,
)  # fmt: skip


@given(outer)
def test_a_record_comes_back_as_it_was_lone_surrogates_too(one: Outer) -> None:
    assert from_value(Outer, decode(encode(to_value(one)))) == one


def test_fields_travel_by_name() -> None:
    assert to_value(Inner(id="b", raw=b"c")) == {"id": "b", "raw": b"c"}
    assert to_value("\udc80") == b"\xed\xb2\x80"


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (int, True), (int, "1"), (bool, 1), (str, None), (str, b"plain"), (str, b"\xff"), (bytes, "x"), (None, 0),
        (Inner, {"id": "b"}), (Inner, {"id": "b", "raw": b"", "more": 1}), (Inner, ["b", b""]), (Inner, None),
        (Inner, {"id": b"b", "raw": b""}), (tuple[int, str], [1]), (tuple[int, str], [1, "a", 2]), (tuple[int, ...], 1),
        (list[int], [None]), (int | None, "1"), (Row, {"kind": "a"}), (Inner, {"id": "b", b"raw": b""}),
    ],
)  # fmt: skip
def test_what_is_not_exactly_what_is_wanted_is_refused(wanted: Any, value: Any) -> None:
    with pytest.raises(FormatError):
        from_value(wanted, value)


def test_a_changed_record_is_refused_or_is_what_it_says() -> None:
    dice, taken, refused = random.Random(5), 0, 0
    for _ in range(3000):
        value = mutated(to_value(ONE), dice)
        try:
            found = from_value(Outer, value)
        except FormatError:
            refused += 1
            continue
        taken += 1
        assert to_value(found) == value
    assert taken > 300 and refused > 300


def test_arguments_are_taken_by_name_and_may_be_left_out_where_that_is_said() -> None:
    wanted, optional = {"name": str, "head": str | None}, frozenset({"head"})
    assert arguments(wanted, optional, {"name": "x"}) == {"name": "x"}
    assert arguments(wanted, optional, {"name": "x", "head": "y"}) == {"name": "x", "head": "y"}
    for value in (
        {},
        {"head": "y"},
        {"name": 1},
        {"name": "x", "more": 1},
        {"name": "x", 1: 1},
        {"name": "x", b"head": None},
    ):
        with pytest.raises(FormatError):
            arguments(wanted, optional, value)  # type: ignore[arg-type]
