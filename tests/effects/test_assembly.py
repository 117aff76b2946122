"""A streamed reply put together from events that may be anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.effects.assembly import Assembly, BrokenReply, whole_text
from hhd.effects.model import Told, encode_reply

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
INPUT = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=3), max_size=4)


def cut(data: st.DataObject, whole: str) -> list[str]:
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


def events_of(data: st.DataObject, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start, kind, name, whole = {**block, "text": ""}, "text_delta", "text", block["text"]
        else:
            start, kind, name = {**block, "input": {}}, "input_json_delta", "partial_json"
            whole = json.dumps(block["input"], ensure_ascii=data.draw(st.booleans()))
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: piece}}
            for piece in cut(data, whole)
        ]
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}]


BLOCKS = st.lists(
    st.builds(lambda words: {"type": "text", "text": words}, TEXT)
    | st.builds(lambda given: {"type": "tool_use", "id": "t", "name": "n", "input": given}, INPUT),
    max_size=4,
)


@given(st.data(), BLOCKS)
def test_a_reply_is_the_same_however_it_was_cut(data: st.DataObject, blocks: list[dict[str, Any]]) -> None:
    told: list[Told] = []
    assembly = Assembly(told.append)
    for event in [*events_of(data, blocks), {"type": "message_stop"}]:
        assembly.add(event)
    usage = {"input_tokens": 3, "output_tokens": 2}
    assert assembly.reply() == {"content": blocks, "stop_reason": "end_turn", "usage": usage}
    assert "".join(each.text for each in told) == "".join(block.get("text", "") for block in blocks)


@given(st.data(), BLOCKS)
def test_a_reply_without_its_end_is_broken(data: st.DataObject, blocks: list[dict[str, Any]]) -> None:
    assembly = Assembly(lambda told: None)
    events = events_of(data, blocks)
    for event in events[: data.draw(st.integers(0, len(events)))]:
        assembly.add(event)
    with pytest.raises(BrokenReply, match="ended in the middle"):
        assembly.reply()


NAMES = st.sampled_from(
    ("type", "index", "delta", "content_block", "message", "usage", "text", "partial_json", "stop_reason", "input")
)
VALUES = st.one_of(
    st.sampled_from(("message_start", "content_block_start", "content_block_delta", "content_block_stop")),
    st.sampled_from(("message_delta", "message_stop", "text", "tool_use", "{")),
    st.sampled_from(("text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta")),
)
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | VALUES | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
EVENTS = st.fixed_dictionaries(
    {"type": VALUES},
    optional={"index": st.integers(-1, 2), "delta": NONSENSE, "content_block": NONSENSE, "message": NONSENSE}
    | {"usage": NONSENSE},
)


@given(st.lists(EVENTS | NONSENSE, max_size=12))
def test_nonsense_is_a_broken_reply_or_a_reply_and_never_an_error_of_ours(events: list[object]) -> None:
    assembly = Assembly(lambda told: None)
    try:
        for event in events:
            assembly.add(event)
        reply = assembly.reply()
    except BrokenReply as error:
        assert str(error)[0].islower()
        return
    assert set(reply) == {"content", "stop_reason", "usage"}
    encode_reply(reply)


@given(st.text(st.characters(), max_size=20))
def test_whole_text_is_what_utf8_can_hold(text: str) -> None:
    halves = text.encode("utf-16-le", "surrogatepass")
    split = "".join(chr(int.from_bytes(halves[at : at + 2], "little")) for at in range(0, len(halves), 2))
    assert whole_text(split) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    whole_text(split).encode("utf-8")
