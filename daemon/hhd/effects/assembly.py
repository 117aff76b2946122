"""Puts the events of one streamed reply together again, and believes nothing about them.

Events are those of the Messages API: `message_start`, `content_block_start`, `content_block_delta`,
`content_block_stop`, `message_delta`, `message_stop`. Unknown events and unknown deltas are passed over; unknown
blocks and fields are kept as they came, since the service wants its own words back in the next request. A tool call
whose input was cut off comes back with an empty input; the agent never runs the last call of a cut reply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from hhd.effects.model import Kind, Told, Watch
from hhd_protocol.limits import EFFECT_BYTES_MAX

BLOCKS_MAX = 10_000
"""Content blocks of one reply; real ones have tens."""

_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}

_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


class BrokenReply(Exception):
    """The reply ended early or does not follow the Messages API; the message completes "the reply ...".

    `reply`: what to answer if asking again does not help; None where the session is better paused.
    """

    def __init__(self, what: str, reply: dict[str, object] | None = None) -> None:
        super().__init__(what)
        self.reply = reply


class Assembly:
    """One reply while it comes in."""

    def __init__(self, watch: Watch) -> None:
        self.finished = False
        self._watch = watch
        self._blocks: dict[int, dict[str, object]] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._stopped: set[int] = set()
        self._usage: dict[str, object] = {}
        self._stop_reason: str | None = None
        self._size = 0

    def add(self, event: object) -> None:
        """Take the next event. Raises BrokenReply."""
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BrokenReply("holds an event that is not an object with a type")
        if self.finished:
            return
        match event["type"]:
            case "message_start":
                message = _object(event, "message")
                if isinstance(usage := message.get("usage"), dict):
                    self._count(usage)
            case "content_block_start":
                self._begin(_index(event), dict(_object(event, "content_block")))
            case "content_block_delta":
                self._extend(_index(event), _object(event, "delta"))
            case "content_block_stop":
                self._stopped.add(_index(event))
            case "message_delta":
                reason = _object(event, "delta").get("stop_reason")
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
                if isinstance(usage := event.get("usage"), dict):
                    self._count(usage)
            case "message_stop":
                self.finished = True

    def reply(self) -> dict[str, object]:
        """The whole reply. Raises BrokenReply if it is not whole."""
        if not self.finished:
            raise BrokenReply("ended in the middle")
        if self._stop_reason is None:
            raise BrokenReply("has no stop_reason")
        content = [self._whole(index) for index in sorted(self._blocks)]
        return {"content": content, "stop_reason": self._stop_reason, "usage": self._usage}

    def _begin(self, index: int, block: dict[str, object]) -> None:
        if index in self._blocks or len(self._blocks) >= BLOCKS_MAX:
            raise BrokenReply("begins a content block twice, or too many of them")
        if not isinstance(block.get("type"), str):
            raise BrokenReply("holds a content block without a type")
        self._grow(len(json.dumps(block)))
        self._blocks[index] = block
        self._pieces[index] = {}
        if block["type"] == "text" and isinstance(text := block.get("text"), str) and text:
            self._watch(Told(kind=Kind.TEXT, text=whole_text(text)))

    def _extend(self, index: int, delta: Mapping[str, object]) -> None:
        if index not in self._blocks or index in self._stopped:
            raise BrokenReply("continues a content block that is not open")
        kind = delta.get("type")
        if kind in _TEXT_DELTAS:
            name = _TEXT_DELTAS[str(kind)]
            piece = delta.get(name)
            if not isinstance(piece, str):
                raise BrokenReply(f"holds a {kind} without its text")
            self._grow(len(piece))
            self._pieces[index].setdefault(name, []).append(piece)
            if kind != "input_json_delta":
                self._watch(Told(kind=Kind.TEXT if name == "text" else Kind.THINKING, text=whole_text(piece)))
        elif kind == "signature_delta" and isinstance(signature := delta.get("signature"), str):
            self._grow(len(signature))
            self._blocks[index]["signature"] = signature
        elif kind == "citations_delta" and "citation" in delta:
            self._grow(len(json.dumps(delta["citation"])))
            citations = self._blocks[index].get("citations")
            self._blocks[index]["citations"] = [*(citations if isinstance(citations, list) else []), delta["citation"]]

    def _whole(self, index: int) -> dict[str, object]:
        block, pieces = self._blocks[index], self._pieces[index]
        for name in ("text", "thinking"):
            if name in pieces:
                begun = block.get(name)
                block[name] = whole_text((begun if isinstance(begun, str) else "") + "".join(pieces[name]))
        if text := whole_text("".join(pieces.get("partial_json", ()))):
            try:
                block["input"] = json.loads(text)
            except (ValueError, RecursionError) as error:
                if self._stop_reason not in _CUT or index != max(self._blocks):
                    raise BrokenReply("holds a tool call whose input is not JSON") from error
                block["input"] = {}
        if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
            raise BrokenReply("holds a tool call whose input is not an object")
        return block

    def _count(self, usage: Mapping[str, object]) -> None:
        self._usage.update((name, value) for name, value in usage.items() if type(value) is int and value >= 0)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > EFFECT_BYTES_MAX:
            raise BrokenReply(f"passes {EFFECT_BYTES_MAX} bytes")


def whole_text(text: str) -> str:
    """`text` with surrogate pairs that were split between two events joined, and halves without a partner replaced."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _index(event: Mapping[str, object]) -> int:
    index = event.get("index")
    if type(index) is not int or index < 0:
        raise BrokenReply("holds an event without an index")
    return index


def _object(event: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise BrokenReply(f"holds a {event['type']} without its {name}")
    return found
