"""Canonical CBOR."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import codec
from hhd_protocol.errors import FormatError, TooLargeError

leaves = st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.binary() | st.text()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(st.integers(0, 99) | st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_what_is_encoded_decodes_to_itself(value: codec.Value) -> None:
    assert codec.decode(codec.encode(value)) == value


@given(st.binary(max_size=64))
def test_bytes_are_either_the_one_encoding_of_a_value_or_refused(raw: bytes) -> None:
    try:
        value = codec.decode(raw)
    except FormatError:
        return
    assert codec.encode(value) == raw


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("longer than needed", b"\x18\x01"),
        ("indefinite", b"\x9f\xff"),
        ("keys out of order", b"\xa2\x02\x00\x01\x00"),
        ("a key twice", b"\xa2\x01\x00\x01\x00"),
        ("a float", cbor2.dumps(1.5)),
        ("a tag", b"\xc1\x1a\x00\x00\x00\x00"),
        ("a trailing byte", b"\x00\x00"),
        ("a huge array", b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        ("nesting", b"\x81" * 40 + b"\x00"),
        ("deep nesting", b"\x81" * 100_000 + b"\x00"),
    ],
)
def test_nonsense_is_refused(what: str, raw: bytes) -> None:
    with pytest.raises(FormatError):
        codec.decode(raw)


def test_too_large_is_refused_before_decoding() -> None:
    with pytest.raises(TooLargeError):
        codec.decode(b"\x00" * 100, bytes_max=99)
