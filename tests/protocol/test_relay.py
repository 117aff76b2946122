"""What two members say about a session: as the vectors have it, and nothing else passes; each byte is taken once."""

from __future__ import annotations

import importlib.util
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.mutate import mutated_bytes

from hhd_protocol import limits, live, relay
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError

VECTORS = Path(__file__).parents[2] / "protocol/vectors"
SPEC = (Path(__file__).parents[2] / "protocol/spec/relay.md").read_text()


def made() -> dict[str, relay.Message]:
    found = importlib.util.spec_from_file_location("make_relay_vectors", VECTORS / "make_relay_vectors.py")
    assert found is not None and found.loader is not None
    module: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return dict(module.MESSAGES)


MADE = made()


def test_every_vector_is_the_message_it_says_and_every_kind_has_one() -> None:
    said = json.loads((VECTORS / "relay.json").read_text())
    assert said.keys() == MADE.keys()
    for name, message in MADE.items():
        raw = bytes.fromhex(said[name])
        assert relay.encode_message(message) == raw and relay.decode_message(raw) == message
    kinds = {"event" if isinstance(one, live.Event) else type(one).__name__.lower() for one in MADE.values()}
    assert kinds == set(relay.KINDS)


def test_the_spec_has_every_kind_with_its_fields_and_every_bound() -> None:
    for name in relay.KINDS:
        line = re.search(rf"^{name} += (.*)$", SPEC, re.M)
        assert line is not None, name
        if name != "event":
            kind: Any = next(type(one) for one in MADE.values() if type(one).__name__.lower() == name)
            assert re.findall(r"(\w+): ", line[1]) == list(kind.__dataclass_fields__), name
    bounds = dict(re.findall(r"^\| `(RELAY_\w+)` \| (\d+) \|", SPEC, re.M))
    assert bounds == {name: str(value) for name, value in vars(limits).items() if name.startswith("RELAY_")}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [1],
        [1, "pause"],
        [0, "pause", {"id": b"i" * 16, "session": b"s" * 32}],
        [True, "pause", {"id": b"i" * 16, "session": b"s" * 32}],
        [1, "pause", {"id": b"i" * 16, "session": b"s" * 32}, 1],
        [1, "pause", {"id": b"i" * 15, "session": b"s" * 32}],
        [1, "pause", {"id": b"i" * 16, "session": b"s" * 31}],
        [1, "pause", {"id": b"i" * 16, "session": "s" * 32}],
        [1, "pause", {"id": b"i" * 16}],
        [1, "pause", {"id": b"i" * 16, "session": b"s" * 32, "more": 1}],
        [1, "take over", {"id": b"i" * 16, "session": b"s" * 32}],
        [1, "watch", {"session": b"s" * 32, "position": -1, "by": ""}],
        [1, "watch", {"session": b"s" * 32, "position": 2**53, "by": ""}],
        [1, "watch", {"session": b"s" * 32, "position": False, "by": ""}],
        [1, "over", {"why": "because", "sentence": "", "exit": 3}],
        [1, "over", {"why": "full", "sentence": "", "exit": 0}],
        [1, "over", {"why": "full", "sentence": "", "exit": 6}],
        [1, "heard", {"id": b"i" * 16, "how": "badly"}],
        [1, "event", {"words": {"text": 1}}],
        [1, "event", []],
    ],
    ids=repr,
)
def test_what_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(FormatError):
        relay.decode_message(encode(value))


@pytest.mark.parametrize(
    ("name", "field", "length"),
    [
        ("say", "text", limits.RELAY_TEXT_BYTES_MAX),
        ("answer", "message", limits.RELAY_TEXT_BYTES_MAX),
        ("answer", "question", limits.RELAY_SENTENCE_BYTES_MAX),
        ("find", "name", limits.RELAY_SENTENCE_BYTES_MAX),
        ("over", "sentence", limits.RELAY_SENTENCE_BYTES_MAX),
        ("keys", "line", limits.LIVE_LINE_BYTES_MAX),
        ("watch", "by", limits.LIVE_BY_BYTES_MAX),
    ],
)
def test_a_text_may_be_as_long_as_its_bound_and_no_longer(name: str, field: str, length: int) -> None:
    fits: Any = replace(MADE[name], **{field: "x" * length})  # type: ignore[type-var]
    raw = relay.encode_message(fits)
    assert relay.decode_message(raw) == fits
    wrong = replace(fits, **{field: "x" * (length + 1)})
    with pytest.raises(TooLargeError):
        relay.encode_message(wrong)
    fields = {one: getattr(wrong, one) for one in wrong.__dataclass_fields__}
    with pytest.raises(TooLargeError):
        relay.decode_message(encode([1, name, fields]))


def test_a_long_message_is_refused_before_it_is_read_and_an_event_that_is_too_long_is_not_made() -> None:
    with pytest.raises(TooLargeError):
        relay.decode_message(bytes(limits.RELAY_MESSAGE_BYTES_MAX + 1))
    with pytest.raises(TooLargeError):
        relay.encode_message(live.Words(text="x" * limits.RELAY_MESSAGE_BYTES_MAX))


def test_a_newer_version_says_so() -> None:
    with pytest.raises(NewerVersionError):
        relay.decode_message(encode([2, b"whatever comes then"]))


def test_nothing_but_a_format_error_comes_of_damage() -> None:
    dice, refused = random.Random(7), 0
    for message in MADE.values():
        raw = relay.encode_message(message)
        for _ in range(80):
            try:
                again = relay.decode_message(mutated_bytes(raw, dice))
            except FormatError:
                refused += 1
            else:
                assert relay.decode_message(relay.encode_message(again)) == again
    assert refused > 100


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 20), st.integers(1, 30)), max_size=8))
def test_each_byte_is_taken_once_whatever_comes_again(parts: list[tuple[int, int, int]]) -> None:
    text, cursor, heard = bytes(range(64)), relay.Cursor(0), b""
    for reach, before, size in [*parts, (64, 3, 64)]:
        at = max(0, len(heard) - before)
        while at < reach:
            piece = text[at : min(at + size, reach)]
            taken = cursor.take(live.Emitted(position=at, piece=piece))
            if taken is not None:
                assert taken.position == len(heard)
                heard += taken.piece
            at += len(piece)
    assert heard == text and cursor.position == 64


def test_a_gap_is_refused_and_a_line_that_ends_before_what_was_taken_is_noticed() -> None:
    cursor = relay.Cursor(None)
    with pytest.raises(FormatError):
        cursor.take(live.Emitted(position=0, piece=b"early"))
    assert not cursor.attached(10) and cursor.position == 10
    with pytest.raises(FormatError):
        cursor.take(live.Emitted(position=11, piece=b"x"))
    assert cursor.attached(9) and not cursor.attached(10)


def test_the_codec_is_the_one_of_all_messages() -> None:
    raw = relay.encode_message(MADE["pause"])
    assert decode(raw) == [1, "pause", {"id": b"i" * 16, "session": b"s" * 32}]
