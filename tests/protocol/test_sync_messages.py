"""Messages of sync: each there and back, as the vectors have them, and nothing but FormatError out of nonsense."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import tracemalloc
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.protocol.mutate import mutated, mutated_bytes

from hhd_protocol import limits
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.sync import decode_message, encode_message
from hhd_protocol.sync.messages import Message, Part

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "protocol/spec/sync.md").read_text()
VECTORS = json.loads((ROOT / "protocol/vectors/sync.json").read_text())
RAW = {one["name"]: bytes.fromhex(one["message"]) for one in VECTORS["messages"]}


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("made_sync", ROOT / "protocol/vectors/make_sync_vectors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vectors_are_what_the_code_makes() -> None:
    assert generator().vectors() == VECTORS


def test_every_message_has_a_vector_and_a_rule() -> None:
    kinds = {kind.__name__: kind for kind in get_args(Message)}
    assert RAW.keys() == kinds.keys()
    rules = dict(re.findall(r"^([a-z-]+) += \[ (\d+.*?) \]$", SPEC, re.MULTILINE))
    for name, kind in kinds.items():
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
        said = [one.split(":")[0].strip() for one in rules[words].split(", ")]
        number = decode(RAW[name])[0]  # type: ignore[index]
        assert said == [str(number), *(one.name for one in fields(kind))], name


@pytest.mark.parametrize("name", RAW)
def test_a_message_goes_there_and_back(name: str) -> None:
    message = decode_message(RAW[name])
    assert type(message).__name__ == name
    assert encode_message(message) == RAW[name]


@pytest.mark.parametrize("name", RAW)
def test_nonsense_is_refused_and_costs_little(name: str) -> None:
    dice, value = random.Random(name), decode(RAW[name])
    refused = 0
    tracemalloc.start()
    for _ in range(400):
        raw = encode(mutated(value, dice)) if dice.random() < 0.6 else mutated_bytes(RAW[name], dice)
        try:
            again = encode_message(decode_message(raw))
            assert again == raw
        except FormatError:
            refused += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused > 100 and peak < 4_000_000


def test_bounds_are_those_of_the_page() -> None:
    said = {int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", SPEC)}
    for bound in (
        "SYNC_IDS_MAX",
        "SYNC_STATEMENTS_MESSAGE_MAX",
        "SYNC_LOOSE_MAX",
        "SYNC_WORDS_MAX",
        "SYNC_UNBACKED_MAX",
        "SYNC_OUTLIVING_MAX",
    ):
        assert getattr(limits, bound) in said, bound
    for bound in ("SYNC_STATEMENTS_MAX", "SYNC_WANT_AGAIN_MAX", "SYNC_WORDS_A_SECOND", "SYNC_BUCKET_BITS_MAX"):
        assert getattr(limits, bound) in said, bound


def test_a_part_lies_within_its_whole() -> None:
    part = Part(what=0, name=bytes(32), offset=5, total=8, content=b"abc")
    assert decode_message(encode_message(part)) == part
    for offset, total, content in (
        (6, 8, b"abc"),
        (5, 8, b""),
        (0, 2**40, b"abc"),
        (0, limits.OBJECT_BYTES_MAX + 1, b"a"),
    ):
        with pytest.raises(FormatError):
            decode_message(encode([10, 0, bytes(32), offset, total, content]))


def test_a_message_past_the_bound_is_refused_before_it_is_read() -> None:
    with pytest.raises(FormatError):
        decode_message(b"\x9a" + bytes(limits.SYNC_MESSAGE_BYTES_MAX))
