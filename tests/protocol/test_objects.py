"""Sealed objects are those of the vectors; what is not one is refused before anything is opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol.columns import decode_column, decode_rising, encode_column, encode_rising
from hhd_protocol.crypto import SealError
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import EpochId, ObjectName
from hhd_protocol.limits import OBJECT_BYTES_MAX
from hhd_protocol.objects import Ref, SealedObject, decode_refs, encode_refs, object_name, seal_object

VECTORS = json.loads((Path(__file__).parents[2] / "protocol/vectors/objects.json").read_text())
KEY, NONCE = bytes(32), bytes(range(24))


def test_objects_are_those_of_the_vectors() -> None:
    key = bytes.fromhex(VECTORS["key"])
    for case in VECTORS["objects"]:
        raw = bytes.fromhex(case["raw"])
        sealed = SealedObject(raw)
        assert [sealed.segment(key, i).hex() for i in range(sealed.count)] == case["segments"]
        assert object_name(raw).hex() == case["name"]
        begin = 2 + 4 * sealed.count
        assert seal_object(key, raw[begin : begin + 24], [bytes.fromhex(one) for one in case["segments"]]) == raw


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=6), st.data())
def test_every_segment_opens_and_no_changed_byte_does(segments: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(seal_object(KEY, NONCE, segments))
    whole = SealedObject(bytes(raw))
    assert [whole.segment(KEY, i) for i in range(whole.count)] == segments
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((FormatError, SealError)):
        changed = SealedObject(bytes(raw))
        for i in range(changed.count):
            changed.segment(KEY, i)


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=4), st.data())
def test_every_cut_is_noticed(segments: list[bytes], data: st.DataObject) -> None:
    raw = seal_object(KEY, NONCE, segments)
    with pytest.raises(FormatError):
        SealedObject(raw[: data.draw(st.integers(0, len(raw) - 1))])


def test_segments_may_not_change_places() -> None:
    raw = seal_object(KEY, NONCE, [b"aaa", b"bbb"])
    swapped = raw[:-38] + raw[-19:] + raw[-38:-19]
    assert len(swapped) == len(raw) != 0 and swapped != raw
    with pytest.raises(SealError):
        SealedObject(swapped).segment(KEY, 0)


def test_versions_and_bounds_are_checked_first() -> None:
    raw = seal_object(KEY, NONCE, [b"x"])
    with pytest.raises(NewerVersionError):
        SealedObject(b"\x02" + raw[1:])
    with pytest.raises(FormatError):
        SealedObject(b"\x00" + raw[1:])
    with pytest.raises(TooLargeError):
        SealedObject(bytes(OBJECT_BYTES_MAX + 1))
    huge = b"\x01\x01" + (2**32 - 1).to_bytes(4, "little") + raw[6:]
    with pytest.raises(FormatError):
        SealedObject(huge)


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_columns_keep_their_numbers(values: list[int]) -> None:
    assert list(decode_column(encode_column(values))) == values


@given(st.sets(st.integers(0, 2**32 - 1)))
def test_rising_columns_keep_their_numbers(values: set[int]) -> None:
    assert list(decode_rising(encode_rising(sorted(values)), below=2**32)) == sorted(values)


@pytest.mark.parametrize(
    "raw", [7, "x", b"\x01", b"\x03\0\0\0", b"\x02\0", b"\x02\x05\x00", b"\x04\xff\xff\0\0", b"\0\0"]
)
def test_columns_that_are_none_or_too_wide_are_refused(raw: object) -> None:
    with pytest.raises(FormatError):
        decode_column(raw)


def test_rising_columns_must_rise_and_keep_their_bound() -> None:
    for raw, below in ((b"\x01\x05\x00", 100), (b"\x01\x05\x05", 10), (b"\x04" + b"\xff" * 8, 2**32)):
        with pytest.raises(FormatError):
            decode_rising(raw, below=below)


def test_references_survive_and_wrong_ones_are_refused() -> None:
    one, two = (Ref(name=ObjectName(bytes([i]) * 32), epoch=EpochId(bytes([9 - i]) * 32)) for i in (1, 2))
    for parent, refs in ((None, []), (one, []), (one, [one, two, one]), (None, [two])):
        assert decode_refs(encode_refs(parent, refs)) == (parent, refs)
    epochs, parent, names, numbers = encode_refs(one, [one, two])
    wrong = [
        [7, parent, names, numbers],
        [[*epochs][::-1] if isinstance(epochs, list) else None, parent, names, numbers],
        [epochs, [b"x", 0], names, numbers],
        [epochs, [bytes(32), 2], names, numbers],
        [epochs, [bytes(32), -1], names, numbers],
        [epochs, [bytes(32), True], names, numbers],
        [epochs, parent, b"short", numbers],
        [epochs, parent, names, b"\x01\x00\x07"],
    ]
    for fields in wrong:
        with pytest.raises(FormatError):
            decode_refs(fields)  # type: ignore[arg-type]


def test_the_bounds_in_the_spec_are_those_of_the_code() -> None:
    from hhd_protocol import limits

    spec = Path(__file__).parents[2] / "protocol/spec"
    sealing, store = ((spec / name).read_text() for name in ("sealing.md", "store.md"))
    assert f"`n` from 1 to {limits.OBJECT_SEGMENTS_MAX}" in sealing
    assert f"at most {limits.OBJECT_BYTES_MAX >> 20} MiB" in sealing
    assert f"Heads have at most {limits.OBJECT_HEAD_BYTES_MAX >> 20} MiB" in store
    assert f"at most {limits.IMAGE_OBJECT_PAGES_MAX:,}" in store
    assert f"own pages in each frame, 1 to {limits.SEGMENT_PAGES_MAX}" in store
    assert f"`{limits.SEGMENT_PAGES_MAX} // frame pages`" in store
    assert f"At most {limits.CHAIN_MAX} objects" in store
    assert f"state | bytes beside the pages, at most {limits.IMAGE_STATE_BYTES_MAX >> 20} MiB" in store
    assert (
        f"1 byte to {limits.LOG_CHUNK_BYTES_MAX >> 20} MiB, an object at most {limits.LOG_OBJECT_CHUNKS_MAX}" in store
    )
