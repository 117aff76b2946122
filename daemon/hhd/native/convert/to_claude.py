"""Writes a session as Claude Code does (`native-formats`: a chain by `parentUuid`, one record a block)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hhd.native.convert.source_losses import TITLE_CHARS_MAX
from hhd.native.convert.steps import Cut, Fold, Spoken, Step
from hhd.native.convert.times import Clock
from hhd.native.convert.writer import Continues, Line, Session, encode, only_text
from hhd_protocol.transcript import Call, Message, OtherPart, Outcome, Part, Result, Text, TextPart, Thinking

_NO_USAGE = {"input_tokens": 0, "output_tokens": 0}


class ClaudeWriter:
    """Each result's parent is its own call; the record after a group of calls hangs on the last result."""

    def __init__(self, session: Session, continues: Continues | None = None) -> None:
        self._session = session
        self._clock = Clock(session.started)
        self._continues = continues
        self._parent = continues.parent if continues is not None else None
        self._calls: dict[str, str] = {}
        self._count = 0

    def lines(self, steps: Iterator[Step]) -> Iterator[Line]:
        title = self._session.title or self._session.first_prompt
        if title and self._continues is None:
            # The client lists a session by what stands near an end of the file: a long first prompt would hide it.
            record = {"type": "custom-title", "customTitle": title[:TITLE_CHARS_MAX], "sessionId": self._session.id}
            yield Line(raw=encode(record))
        for step in steps:
            if isinstance(step, Fold):
                yield from self._fold(step)
            elif isinstance(step, Cut):
                self._parent = None
            else:
                yield self._item(step)
        if self._continues is not None and self._parent is not None:
            # The first legs may name a leaf of their own, on a record beside the one that was continued.
            prompt = self._session.first_prompt or self._session.title or ""
            record = {"type": "last-prompt", "lastPrompt": prompt[:200], "leafUuid": self._parent}
            yield Line(raw=encode({**record, "sessionId": self._session.id}))

    def _fold(self, fold: Fold) -> Iterator[Line]:
        leaf, self._parent = self._parent, None
        time = self._clock.at(fold.compaction.time)
        boundary = self._record("system", time)
        boundary["subtype"] = "compact_boundary"
        boundary["content"] = "Conversation compacted"
        boundary["isMeta"] = False
        boundary["level"] = "info"
        if leaf is not None:
            boundary["logicalParentUuid"] = leaf
        meta = {"trigger": fold.compaction.trigger or "auto", "preTokens": fold.compaction.tokens_before or 0}
        boundary["compactMetadata"] = meta
        yield Line(raw=encode(boundary))
        if fold.summary:
            summary = self._record("user", time)
            summary["message"] = {"role": "user", "content": fold.summary}
            summary["isVisibleInTranscriptOnly"] = True
            summary["isCompactSummary"] = True
            yield Line(raw=encode(summary), at=fold.compaction.at)
        for item in (*fold.before, *fold.after):
            yield self._item(item)

    def _item(self, item: Spoken) -> Line:
        time = self._clock.at(item.time)
        if isinstance(item, Message):
            record = self._record("user", time)
            text = only_text(item.parts)
            record["message"] = {"role": "user", "content": text if text is not None else _blocks(item.parts)}
        elif isinstance(item, Result):
            record = self._result(item, time)
        else:
            record = self._reply(item, time)
        return Line(raw=encode(record), at=item.at)

    def _reply(self, item: Spoken, time: str) -> dict[str, object]:
        assert isinstance(item, Text | Thinking | Call), "commands of the person are text here"
        record = self._record("assistant", time)
        stop = "end_turn"
        if isinstance(item, Text):
            block: dict[str, object] = {"type": "text", "text": item.text}
        elif isinstance(item, Thinking):
            block = _thought(item)
        else:
            block = {
                "type": "tool_use",
                "id": item.id,
                "name": item.name,
                "input": msgspec.Raw(item.arguments.encode()),
            }
            stop = "tool_use"
            self._calls[item.id] = str(record["uuid"])
        message: dict[str, object] = {
            "id": f"msg_{self._session.id[:8]}{item.reply}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": _NO_USAGE,
        }
        if item.model is not None:
            message["model"] = item.model
        record["message"] = message
        return record

    def _result(self, item: Result, time: str) -> dict[str, object]:
        call = self._calls.pop(item.call)
        record = self._record("user", time)
        record["parentUuid"] = call
        record["sourceToolAssistantUUID"] = call
        block: dict[str, object] = {"type": "tool_result", "tool_use_id": item.call}
        text = only_text(item.parts) if item.plain is not False else None
        if text is not None:
            block["content"] = text
        elif item.parts:
            block["content"] = _blocks(item.parts)
        if item.outcome is Outcome.ERROR:
            block["is_error"] = True
        record["message"] = {"role": "user", "content": [block]}
        return record

    def _record(self, kind: str, time: str) -> dict[str, object]:
        self._count += 1
        uuid = f"{self._session.id[:24]}{self._count:012x}"
        parent, self._parent = self._parent, uuid
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "timestamp": time,
            "userType": "external",
            "cwd": self._session.cwd,
            "sessionId": self._session.id,
        }


def _thought(item: Thinking) -> dict[str, object]:
    if item.sealed_form == "redacted":
        return {"type": "redacted_thinking", "data": item.sealed}
    return {"type": "thinking", "thinking": item.text, "signature": item.sealed}


def _blocks(parts: tuple[Part, ...]) -> list[object]:
    return [_block(part) for part in parts]


def _block(part: Part) -> object:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, OtherPart):
        return msgspec.Raw(part.json.encode())
    source = (
        {"type": "url", "url": part.url}
        if part.base64 is None
        else {"type": "base64", "media_type": part.mime, "data": part.base64}
    )
    block: dict[str, object] = {"type": "image" if part.form == "image" else "document", "source": source}
    if part.name is not None and part.form != "image":
        block["title"] = part.name
    return block
