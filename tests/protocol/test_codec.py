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


@pytest.mark.parametrize("size", [4095, 4096, 65_535, 65_536, 70_000])
def test_a_long_string_at_the_end_is_taken_in_one_form_only(size: int) -> None:
    text, short = bytes(range(256)) * (size // 256 + 1), size < 1 << 16
    text = text[:size]
    head = b"\x59" + size.to_bytes(2, "big") if short else b"\x5a" + size.to_bytes(4, "big")
    raw = b"\x82\x01" + head + text
    assert codec.decode(raw) == [1, text] and codec.encode([1, text]) == raw
    longer = [b"\x5b" + size.to_bytes(8, "big")] + [b"\x5a" + size.to_bytes(4, "big")] * short
    others = [b"\x82\x01" + one + text for one in (*longer, b"\x5f" + head)]
    others += [b"\x98\x02\x01" + head + text, b"\x82\x18\x01" + head + text, b"\x9f\x01" + head + text + b"\xff"]
    others += [raw + b"\0", raw[:-1], b"\x82\xa2\x02\x00\x01\x00" + head + text]
    for other in others:
        with pytest.raises(FormatError):
            codec.decode(other)
