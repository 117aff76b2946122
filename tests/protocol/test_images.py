"""Images are those of the vectors, and heads that break a rule are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from tests.protocol.reference_images import Reference

from hhd_protocol import images
from hhd_protocol.codec import decode, encode
from hhd_protocol.compression import compress, decompress, decompress_exactly, decompressor
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import EpochId, ObjectName, PageId
from hhd_protocol.limits import CBOR_BYTES_MAX, PAGE_BYTES
from hhd_protocol.objects import Ref, object_name

VECTORS = json.loads((Path(__file__).parents[2] / "protocol/vectors/images.json").read_text())
KEY = Ref(name=ObjectName(b"k" * 32), epoch=EpochId(b"e" * 32))
GOOD = images.ImageHead(
    parent=KEY, refs=[KEY], state=b"s", pages=[1, 5, 9], frame_pages=2, frames=[10, 20], dictionary=1, bases=[0, 1, 0],
    gone=[2], given=[7], given_objects=[1], given_slots=[3], pages_id=PageId(bytes(32)),
)  # fmt: skip


def test_images_are_those_of_the_vectors() -> None:
    objects = {object_name(bytes.fromhex(raw)): bytes.fromhex(raw) for raw in VECTORS["objects"]}
    epoch = EpochId(bytes.fromhex(VECTORS["epoch"]))
    reader = Reference(objects, {epoch: bytes.fromhex(VECTORS["key"])}, bytes.fromhex(VECTORS["page_key"]))
    for case in VECTORS["images"]:
        image = reader.image(Ref(name=ObjectName(bytes.fromhex(case["object"])), epoch=epoch))
        assert {str(n): hashlib.sha256(page).hexdigest() for n, page in image.items()} == case["pages"]


def _plain(head: images.ImageHead) -> images.ImageHead:
    columns = ("pages", "frames", "bases", "gone", "given", "given_objects", "given_slots", "refs")
    return dataclasses.replace(head, **{name: list(getattr(head, name)) for name in columns})


def test_a_head_survives() -> None:
    assert _plain(images.decode_head(images.encode_head(GOOD))) == GOOD


@pytest.mark.parametrize(
    "change",
    [
        {"frames": [10]},
        {"frame_pages": 0},
        {"frame_pages": 257},
        {"dictionary": 2},
        {"dictionary": -1},
        {"bases": [0, 2, 0]},
        {"bases": [1]},
        {"given_objects": [2]},
        {"given_objects": [0]},
        {"given_objects": []},
        {"given_slots": [16384]},
        {"gone": [5]},
        {"given": [9]},
        {"parent": None},
        {"pages": [1, 5, 262144]},
        {"state": bytes(1024 * 1024 + 1)},
        {"pages_id": b"short"},
    ],
)
def test_a_head_that_breaks_a_rule_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        images.decode_head(images.encode_head(dataclasses.replace(GOOD, **change)))  # type: ignore[arg-type]


def test_other_kinds_versions_and_counts_are_refused() -> None:
    fields = decode(decompress(images.encode_head(GOOD), bytes_max=CBOR_BYTES_MAX))
    assert isinstance(fields, list)
    with pytest.raises(NewerVersionError):
        images.decode_head(compress(encode([2, *fields[1:]])))
    for wrong in ([0, *fields[1:]], [1, "log", *fields[2:]], fields[:-1], [*fields, None], 1, [], ["1", "image"]):
        with pytest.raises(FormatError):
            images.decode_head(compress(encode(wrong)))  # type: ignore[arg-type]
    for at, value in ((6, 7), (8, True), (10, None), (16, "x")):
        with pytest.raises(FormatError):
            images.decode_head(compress(encode([*fields[:at], value, *fields[at + 1 :]])))


def test_a_frame_that_names_another_size_is_refused_before_it_is_opened() -> None:
    bomb = compress(bytes(10 * PAGE_BYTES))
    with pytest.raises(FormatError):
        images.decode_frame(bomb, 1, decompressor(b""))
    with pytest.raises(TooLargeError):
        decompress(bomb, bytes_max=PAGE_BYTES)
    for wrong in (b"", b"x", bomb[:-1], bomb + b"\0", bomb + bomb, b"\x28\xb5\x2f\xfd"):
        with pytest.raises(FormatError):
            decompress(wrong, bytes_max=10 * PAGE_BYTES)
        with pytest.raises(FormatError):
            decompress_exactly(wrong, 10 * PAGE_BYTES, decompressor(b""))


def test_a_frame_that_claims_a_tebibyte_is_refused_without_asking_for_it() -> None:
    claim = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(FormatError):
        decompress_exactly(claim, PAGE_BYTES, decompressor(b""))
    with pytest.raises(TooLargeError):
        decompress(claim, bytes_max=PAGE_BYTES)


def test_the_slots_of_a_dictionary_are_spread_over_its_object() -> None:
    assert images.dictionary_slots(3) == [0, 1, 2]
    assert images.dictionary_slots(160) == list(range(0, 160, 10))
