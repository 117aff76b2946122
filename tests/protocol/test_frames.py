"""Frames: cut as they were put together, however they come in; bounded before anything is held."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.mutate import mutated_bytes

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.frames import Frames, frame
from hhd_protocol.limits import CONTROL_REQUEST_BYTES_MAX

VALUES = [{"id": 1, "verb": "show", "arguments": {}}, None, 7, ["a", b"b"], {"x": "y" * 300}]
STREAM = b"".join(frame(one) for one in VALUES)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_values_come_out_whole_wherever_the_stream_was_cut(cuts: list[int]) -> None:
    frames, found = Frames(bytes_max=1000), []
    places = [0, *sorted(cuts), len(STREAM)]
    for begin, end in itertools.pairwise(places):
        found += list(frames.feed(STREAM[begin:end]))
    assert found == VALUES and frames.held_bytes == 0


@pytest.mark.parametrize("length", [1001, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1], ids=str)
def test_a_huge_or_negative_length_is_refused_before_its_value_is_there(length: int) -> None:
    frames = Frames(bytes_max=1000)
    assert list(frames.feed(frame("first") + length.to_bytes(4, "big")[:3])) == ["first"]
    with pytest.raises(TooLargeError):
        list(frames.feed(length.to_bytes(4, "big")[3:]))
    assert frames.held_bytes == 0


def test_the_largest_frame_that_may_be_is_taken_and_one_byte_more_is_not() -> None:
    value = "x" * 997  # Three bytes say what it is and how long.
    assert list(Frames(bytes_max=1000).feed(frame(value))) == [value]
    with pytest.raises(TooLargeError):
        list(Frames(bytes_max=999).feed(frame(value)))
    with pytest.raises(TooLargeError):
        frame(value, bytes_max=999)


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(FormatError):
        list(Frames(bytes_max=1000).feed(bytes(4)))


def test_what_refused_once_takes_nothing_more() -> None:
    frames = Frames(bytes_max=1000)
    for raw in (b"\0\0\0\x01\xff", frame("sound")):
        with pytest.raises(FormatError):
            list(frames.feed(raw))


def test_nothing_but_a_format_error_comes_out_of_nonsense_and_no_more_is_held_than_came() -> None:
    dice = random.Random(7)
    for number in range(2000):
        raw = mutated_bytes(STREAM, dice) if number % 2 else dice.randbytes(dice.randrange(64))
        frames, came = Frames(bytes_max=CONTROL_REQUEST_BYTES_MAX), 0
        try:
            for begin in range(0, len(raw), 50):
                came += len(raw[begin : begin + 50])
                list(frames.feed(raw[begin : begin + 50]))
                assert frames.held_bytes <= came
        except FormatError:
            continue
