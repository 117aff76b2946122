"""Writes a session as Pi does, version 3: one entry a reply, a chain by `parentId`."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hhd.native.convert.source_losses import TITLE_CHARS_MAX
from hhd.native.convert.steps import Cut, Fold, Spoken, Step
from hhd.native.convert.times import Clock, milliseconds
from hhd.native.convert.writer import Continues, Line, Session, encode
from hhd_protocol.transcript import Call, MediaPart, Message, Outcome, Part, Result, Shell, Text, TextPart, Thinking

_NO_USAGE = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}


class PiWriter:
    """Pi crashes on a reply without `usage`, and drops replies that stopped by an error: neither is written."""

    def __init__(self, session: Session, continues: Continues | None = None) -> None:
        self._session = session
        self._clock = Clock(session.started)
        self._continues = continues
        self._parent = continues.parent if continues is not None else None
        self._reply: list[Text | Thinking | Call] = []
        self._names: dict[str, str] = {}
        self._count = 0
        self._salt = int(session.id[:8], 16)

    def lines(self, steps: Iterator[Step]) -> Iterator[Line]:
        if self._continues is None:
            yield from self._head()
        for step in steps:
            if isinstance(step, Fold):
                yield from self._end_reply()
                yield from self._fold(step)
            elif isinstance(step, Cut):
                yield from self._end_reply()
                self._parent = None
            else:
                yield from self._item(step)
        yield from self._end_reply()

    def _head(self) -> Iterator[Line]:
        session = self._session
        yield Line(
            raw=encode(
                {"type": "session", "version": 3, "id": session.id, "timestamp": session.started, "cwd": session.cwd}
            )
        )
        if session.title:
            yield Line(raw=encode(self._entry("session_info", session.started, name=session.title[:TITLE_CHARS_MAX])))

    def _fold(self, fold: Fold) -> Iterator[Line]:
        first_kept = self._next_id()
        for item in (*fold.before, *fold.after):
            yield from self._item(item)
        yield from self._end_reply()
        # Without kept entries this names the compaction itself: then only the summary and what follows is sent.
        entry = self._entry(
            "compaction",
            self._clock.at(fold.compaction.time),
            summary=fold.summary,
            firstKeptEntryId=first_kept,
            tokensBefore=fold.compaction.tokens_before or 0,
        )
        yield Line(raw=encode(entry), at=fold.compaction.at)

    def _item(self, item: Spoken) -> Iterator[Line]:
        if isinstance(item, Text | Thinking | Call):
            if self._reply and self._reply[0].reply != item.reply:
                yield from self._end_reply()
            self._reply.append(item)
            return
        yield from self._end_reply()
        time = self._clock.at(item.time)
        if isinstance(item, Message):
            message: dict[str, object] = {"role": "user", "content": _content(item.parts)}
        elif isinstance(item, Result):
            message = {
                "role": "toolResult",
                "toolCallId": item.call,
                "toolName": self._names.pop(item.call),
                "content": _content(item.parts),
                "isError": item.outcome is Outcome.ERROR,
            }
        else:
            message = _shell(item)
        message["timestamp"] = milliseconds(time)
        yield Line(raw=encode(self._entry("message", time, message=message)), at=item.at)

    def _end_reply(self) -> Iterator[Line]:
        if not self._reply:
            return
        blocks, self._reply = self._reply, []
        time = self._clock.at(next((block.time for block in blocks if block.time), None))
        calls = [block for block in blocks if isinstance(block, Call)]
        self._names.update((call.id, call.name) for call in calls)
        message = {
            "role": "assistant",
            "content": [_block(block) for block in blocks],
            "api": "anthropic-messages",
            "provider": "hhd",
            "model": next((block.model for block in blocks if block.model), None) or "unknown",
            "usage": _NO_USAGE,
            "stopReason": "toolUse" if calls else "stop",
            "timestamp": milliseconds(time),
        }
        entry = encode(self._entry("message", time, message=message))
        for n, block in enumerate(blocks):
            yield Line(raw=entry if n == 0 else b"", at=block.at)

    def _entry(self, kind: str, time: str, **fields: object) -> dict[str, object]:
        self._count += 1
        id = self._id(self._count)
        parent, self._parent = self._parent, id
        return {"type": kind, "id": id, "parentId": parent, "timestamp": time, **fields}

    def _next_id(self) -> str:
        return self._id(self._count + 1)

    def _id(self, n: int) -> str:
        # Odd multiplier modulo 2^32: a different eight-digit id for each of the first four billion entries.
        return f"{(self._salt + n * 0x9E3779B1) & 0xFFFFFFFF:08x}"


def _block(block: Text | Thinking | Call) -> dict[str, object]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Thinking):
        thought: dict[str, object] = {"type": "thinking", "thinking": block.text}
        if block.sealed is not None:
            thought["thinkingSignature"] = block.sealed
        return thought
    return {
        "type": "toolCall",
        "id": block.id,
        "name": block.name,
        "arguments": msgspec.Raw(block.arguments.encode()),
    }


def _shell(item: Shell) -> dict[str, object]:
    message: dict[str, object] = {
        "role": "bashExecution",
        "command": item.command,
        "output": item.output,
        "exitCode": item.exit_code,
        "cancelled": item.cancelled,
        "truncated": item.truncated,
    }
    if not item.live:
        message["excludeFromContext"] = True
    return message


def _content(parts: tuple[Part, ...]) -> list[object]:
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "data": part.base64, "mimeType": part.mime}
        for part in parts
        if isinstance(part, TextPart | MediaPart)
    ]
