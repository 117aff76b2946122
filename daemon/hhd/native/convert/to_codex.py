"""Writes a session as Codex does, in the legacy form: no ordinals, no provider, an event beside every text.

A result cannot carry an error flag here; `arrange` put a signed mark into its text. Nothing of settings is written:
no approval policy, no sandbox policy, no turn context.
"""

from __future__ import annotations

from collections.abc import Iterator

from hhd.native.convert.steps import Cut, Fold, Spoken, Step
from hhd.native.convert.times import Clock
from hhd.native.convert.writer import Continues, Line, Session, data_url, encode, only_text
from hhd_protocol.transcript import Call, Form, MediaPart, Message, Part, Result, Text, TextPart, Thinking

ORIGINATOR = "hhd"
CLI_VERSION = "0.171.0"
"""The release whose legacy form this is; the client asks for the field."""

_SUMMARY = {
    "content_item_kinds": ["compaction.summary"],
    "content_item_metadata": [{"provenance": {"type": "harness", "hook": False}}],
}


class CodexWriter:
    """`response_item` lines go to the model, `event_msg` lines to the screen and to lists."""

    def __init__(self, session: Session, continues: Continues | None = None) -> None:
        self._session = session
        self._clock = Clock(session.started)
        self._text_calls: set[str] = set()
        self._continues = continues
        self._ordinal = continues.ordinal if continues is not None else None

    def lines(self, steps: Iterator[Step]) -> Iterator[Line]:
        if self._continues is None:
            yield self._head()
        for step in steps:
            if isinstance(step, Fold):
                yield self._fold(step)
            else:
                assert not isinstance(step, Cut), "a rollout has one beginning"
                yield from self._item(step)

    def _head(self) -> Line:
        session = self._session
        meta = {
            "id": session.id,
            "timestamp": session.started,
            "cwd": session.cwd,
            "originator": ORIGINATOR,
            "cli_version": CLI_VERSION,
            "source": "cli",
        }
        return Line(raw=encode({"timestamp": session.started, "type": "session_meta", "payload": meta}))

    def _fold(self, fold: Fold) -> Line:
        history = [self._payload(item, in_history=True) for item in fold.before]
        if fold.summary:
            content = [{"type": "input_text", "text": fold.summary}]
            message: dict[str, object] = {"type": "message", "role": "user", "content": content}
            message["internal_chat_message_metadata_passthrough"] = _SUMMARY
            history.append(message)
        history += [self._payload(item, in_history=True) for item in fold.after]
        payload: dict[str, object] = {"message": fold.summary}
        if fold.last:
            payload["replacement_history"] = history
        time = self._clock.at(fold.compaction.time)
        return Line(raw=self._encoded(time, "compacted", payload), at=fold.compaction.at)

    def _item(self, item: Spoken) -> Iterator[Line]:
        time = self._clock.at(item.time)
        yield Line(raw=self._encoded(time, "response_item", self._payload(item)), at=item.at)
        if isinstance(item, Text):
            event: dict[str, object] = {"type": "agent_message", "message": item.text}
        elif isinstance(item, Message):
            texts = [part.text for part in item.parts if isinstance(part, TextPart)]
            event = {"type": "user_message", "message": "\n".join(texts)}
            images = [data_url(part) for part in item.parts if isinstance(part, MediaPart)]
            if images:
                event["images"] = images
        else:
            return
        yield Line(raw=self._encoded(time, "event_msg", event))

    def _encoded(self, time: str, kind: str, payload: dict[str, object]) -> bytes:
        if self._ordinal is None:
            return encode({"timestamp": time, "type": kind, "payload": payload})
        self._ordinal += 1
        return encode({"timestamp": time, "ordinal": self._ordinal, "type": kind, "payload": payload})

    def _payload(self, item: Spoken, *, in_history: bool = False) -> dict[str, object]:
        if isinstance(item, Text):
            content = [{"type": "output_text", "text": item.text}]
            return {"type": "message", "role": "assistant", "content": content}
        if isinstance(item, Message):
            message: dict[str, object] = {"type": "message", "role": "user", "content": _content(item.parts)}
            if in_history:
                # No event stands beside an item of a replacement history: this says that a person wrote it.
                kinds = ["user.text" if isinstance(part, TextPart) else "user.image" for part in item.parts]
                metadata = [{"provenance": {"type": "user"}} for _ in item.parts]
                message["internal_chat_message_metadata_passthrough"] = {
                    "content_item_kinds": kinds,
                    "content_item_metadata": metadata,
                }
            return message
        if isinstance(item, Thinking):
            summary = [{"type": "summary_text", "text": item.text}] if item.text else []
            return {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": item.sealed}
        if isinstance(item, Call):
            return self._call(item)
        assert isinstance(item, Result), "commands of the person are text here"
        kind = "function_call_output"
        if item.call in self._text_calls:
            self._text_calls.discard(item.call)
            kind = "custom_tool_call_output"
        text = only_text(item.parts) if item.plain is not False else None
        output: object = text if text is not None else (_content(item.parts) if item.parts else "")
        return {"type": kind, "call_id": item.call, "output": output}

    def _call(self, item: Call) -> dict[str, object]:
        if item.form is Form.TEXT:
            self._text_calls.add(item.id)
            kind, field = "custom_tool_call", "input"
        else:
            kind, field = "function_call", "arguments"
        call: dict[str, object] = {"type": kind, "name": item.name, field: item.arguments, "call_id": item.id}
        if item.namespace is not None and item.form is Form.JSON:
            call["namespace"] = item.namespace
        return call


def _content(parts: tuple[Part, ...]) -> list[object]:
    return [
        {"type": "input_text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "input_image", "image_url": data_url(part)}
        for part in parts
        if isinstance(part, TextPart | MediaPart)
    ]
