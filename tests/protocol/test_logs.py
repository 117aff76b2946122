"""Logs are those of the vectors, and heads that break a rule are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.protocol.reference_images import Reference

from hhd_protocol import logs
from hhd_protocol.codec import decode, encode
from hhd_protocol.compression import compress, decompress
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import EpochId, ObjectName, PageId
from hhd_protocol.limits import CBOR_BYTES_MAX, LOG_CHUNK_BYTES_MAX
from hhd_protocol.objects import Ref, object_name

VECTORS = json.loads((Path(__file__).parents[2] / "protocol/vectors/logs.json").read_text())
ONE = Ref(name=ObjectName(b"k" * 32), epoch=EpochId(b"e" * 32))
GOOD = logs.LogHead(
    parent=ONE, refs=[ONE], given_objects=[1], given_slots=[2], given_lengths=[30], lengths=[1, LOG_CHUNK_BYTES_MAX],
    chunks_id=PageId(bytes(32)),
)  # fmt: skip


def test_logs_are_those_of_the_vectors() -> None:
    objects = {object_name(bytes.fromhex(raw)): bytes.fromhex(raw) for raw in VECTORS["objects"]}
    epoch = EpochId(bytes.fromhex(VECTORS["epoch"]))
    reader = Reference(objects, {epoch: bytes.fromhex(VECTORS["key"])}, bytes.fromhex(VECTORS["page_key"]))
    for case in VECTORS["logs"]:
        ref = Ref(name=ObjectName(bytes.fromhex(case["object"])), epoch=epoch)
        assert reader.log(ref).decode() == case["text"]


def test_a_head_survives() -> None:
    head = logs.decode_head(logs.encode_head(GOOD))
    columns = ("refs", "given_objects", "given_slots", "given_lengths", "lengths")
    assert dataclasses.replace(head, **{name: list(getattr(head, name)) for name in columns}) == GOOD
    assert [(chunk.slot, chunk.length) for chunk in head.chunks(ONE)] == [(2, 30), (0, 1), (1, LOG_CHUNK_BYTES_MAX)]


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": [0]},
        {"lengths": [LOG_CHUNK_BYTES_MAX + 1]},
        {"lengths": [1] * 65},
        {"given_lengths": [0]},
        {"given_lengths": []},
        {"given_objects": [2]},
        {"given_objects": [0]},
        {"given_slots": [64]},
        {"chunks_id": b""},
    ],
)
def test_a_head_that_breaks_a_rule_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(FormatError):
        logs.decode_head(logs.encode_head(dataclasses.replace(GOOD, **change)))  # type: ignore[arg-type]


def test_other_kinds_versions_and_counts_are_refused() -> None:
    fields = decode(decompress(logs.encode_head(GOOD), bytes_max=CBOR_BYTES_MAX))
    assert isinstance(fields, list)
    with pytest.raises(NewerVersionError):
        logs.decode_head(compress(encode([2, *fields[1:]])))
    for wrong in ([0, *fields[1:]], [1, "image", *fields[2:]], fields[:-1], [*fields, None], 1, []):
        with pytest.raises(FormatError):
            logs.decode_head(compress(encode(wrong)))  # type: ignore[arg-type]


def test_a_chunk_is_read_at_its_length_only() -> None:
    segment = logs.encode_chunk(b"x" * 100)
    assert logs.decode_chunk(segment, 100) == b"x" * 100
    for length in (99, 101):
        with pytest.raises(FormatError):
            logs.decode_chunk(segment, length)
