"""What devices say of their clocks: as the vectors have it, nothing else, and no more than can be known."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import clock, limits
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError, NewerVersionError

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "protocol/vectors/peers.json").read_text())["clock"]


def test_every_vector_is_the_message_it_says() -> None:
    assert bytes.fromhex(VECTORS["ask"]) == clock.ASK
    clock.insist_on_ask(clock.ASK)
    for at, raw in VECTORS["told"].items():
        assert clock.encode_told(int(at)).hex() == raw and clock.decode_told(bytes.fromhex(raw)) == int(at)


def test_the_spec_has_the_bound_of_the_code() -> None:
    spec = (ROOT / "protocol/spec/peers.md").read_text()
    assert re.findall(r"^\| `(CLOCK_\w+)` \| (\d+) \|", spec, re.M) == [
        ("CLOCK_BYTES_MAX", str(limits.CLOCK_BYTES_MAX))
    ]


@pytest.mark.parametrize(
    "value", [None, [], [0], [1, -1], [1, 2**53], [1, True], [1, "now"], [True, 1], [1, 1, 1], {1: 1}]
)
def test_what_is_no_message_is_refused(value: object) -> None:
    raw = encode(value)  # type: ignore[arg-type]
    for read in (clock.decode_told, clock.insist_on_ask):
        with pytest.raises(FormatError):
            read(raw)


def test_a_newer_version_is_told_apart_and_a_clock_that_is_out_of_all_bounds_is_told_in_them() -> None:
    with pytest.raises(NewerVersionError):
        clock.decode_told(encode([2, 1, "more"]))
    assert (
        clock.decode_told(clock.encode_told(-1)) == 0 and clock.decode_told(clock.encode_told(2**60)) == clock.AT_MS_MAX
    )


@given(st.binary(max_size=40))
def test_nothing_but_a_format_error_comes_out_of_any_bytes(raw: bytes) -> None:
    for read in (clock.decode_told, clock.insist_on_ask):
        with contextlib.suppress(FormatError):
            read(raw)


@given(st.integers(-(10**12), 10**12), st.integers(10**12, 10**13), st.integers(0, 5000), st.integers(0, 5000))
def test_the_difference_is_never_said_to_be_larger_than_it_is_and_at_most_smaller_by_what_the_answer_took(
    ahead: int, asked: int, there: int, back: int
) -> None:
    found = clock.skew_ms(asked + there + ahead, asked, there + back)
    assert (found == 0 or (found > 0) == (ahead > 0)) and abs(ahead) - there - back <= abs(found) <= abs(ahead)
