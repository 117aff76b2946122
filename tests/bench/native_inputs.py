"""Makes large session files that look like those of the real clients: same fields, same proportions, seeded."""

from __future__ import annotations

import functools
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path

_TEXT = """
the file reads writes a test that fails when parser meets an empty line def return self import value result error index
page snapshot token for in if else while const let function => { } ( ) [ ] ; : , . src/main.rs lib/module.py
tests/test_reader.py 127 0x1f
"""
_WORDS = _TEXT.split()
_FOREIGN = ["naïve", "日本語", "café", "→"]
"""One text in eight holds some of these: most of a coding session is ASCII."""


def _text(dice: random.Random, chars: int) -> str:
    pieces: list[str] = []
    size = 0
    foreign = dice.random() < 0.125
    while size < chars:
        word = dice.choice(_WORDS)
        pieces.append(word)
        size += len(word) + 1
        if foreign and dice.random() < 0.05:
            pieces.append(dice.choice(_FOREIGN))
        if dice.random() < 0.08:
            pieces.append("\n")
    return " ".join(pieces)


@functools.cache
def _pool() -> dict[int, list[str]]:
    dice = random.Random(1)
    return {size: [_text(dice, size) for _ in range(40)] for size in (80, 300, 900, 3000, 9000)}


class _Texts:
    """A pool of texts to pick from, so that making a gigabyte does not take an hour."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._pool = _pool()

    def pick(self, *sizes: int) -> str:
        return self._dice.choice(self._pool[self._dice.choice(sizes)])


def claude_lines(bytes_min: int, seed: int = 1, big_line_bytes: int = 0) -> Iterator[bytes]:
    """Lines of a Claude Code session of at least `bytes_min` bytes, one of them holding `big_line_bytes` of output."""
    dice = random.Random(seed)
    texts = _Texts(dice)
    session = str(uuid.UUID(int=dice.getrandbits(128), version=4))
    common = {
        "userType": "external",
        "entrypoint": "cli",
        "cwd": "/home/alice/src/demo",
        "sessionId": session,
        "version": "2.1.332",
        "gitBranch": "main",
    }
    parent: str | None = None
    written = 0
    turn = 0

    def chained(record: dict[str, object], tail: dict[str, object] | None = None) -> bytes:
        nonlocal parent, written
        own = str(uuid.UUID(int=dice.getrandbits(128), version=4))
        stamp = f"2026-08-{1 + turn // 2000 % 28:02}T{turn // 60 % 24:02}:{turn % 60:02}:00.000Z"
        whole = {"parentUuid": parent, "isSidechain": False, **record, "uuid": own, "timestamp": stamp, **(tail or {})}
        line = json.dumps({**whole, **common}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        parent = own
        written += len(line)
        return line

    def reply(message: str, block: dict[str, object], stop: str) -> bytes:
        usage = {"input_tokens": 5, "cache_read_input_tokens": 30000, "output_tokens": 200, "service_tier": "standard"}
        body = {
            "model": "claude-opus-5-5",
            "id": message,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }
        return chained({"message": body, "requestId": "req_" + message, "type": "assistant"})

    while written < bytes_min:
        turn += 1
        prompt = texts.pick(80, 300)
        yield chained({"promptId": "p", "type": "user", "message": {"role": "user", "content": prompt}})
        yield chained({"attachment": {"type": "date", "date": "2026-08-01"}, "type": "attachment"})
        for step in range(dice.randrange(1, 9)):
            message = f"msg_{turn:06}{step:03}"
            if dice.random() < 0.3:
                thought = {"type": "thinking", "thinking": texts.pick(300, 900), "signature": "c2ln" * 100}
                yield reply(message, thought, "tool_use")
            if dice.random() < 0.5:
                yield reply(message, {"type": "text", "text": texts.pick(80, 300)}, "tool_use")
            call = f"toolu_{turn:08}{step:04}"
            given = {"command": texts.pick(80), "description": "run"}
            if dice.random() < 0.2:
                given = {"file_path": "/home/alice/src/demo/a.py", "old_string": texts.pick(300), "new_string": "x"}
            yield reply(message, {"type": "tool_use", "id": call, "name": "Bash", "input": given}, "tool_use")
            out = texts.pick(80, 900, 3000, 9000)
            if big_line_bytes and written > bytes_min // 2:
                out, big_line_bytes = texts.pick(9000) * (big_line_bytes // 9000), 0
            block = {"tool_use_id": call, "type": "tool_result", "content": out, "is_error": False}
            extra = {
                "toolUseResult": {"stdout": out, "stderr": "", "interrupted": False, "isImage": False},
                "sourceToolAssistantUUID": parent,
            }
            if dice.random() < 0.5:
                extra["toolUseResult"] = "short"
            yield chained({"type": "user", "message": {"role": "user", "content": [block]}}, extra)
        answer = texts.pick(300, 900, 3000)
        yield reply(f"msg_{turn:06}end", {"type": "text", "text": answer}, "end_turn")
        last = {"type": "last-prompt", "lastPrompt": prompt[:200], "leafUuid": parent, "sessionId": session}
        line = json.dumps(last, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        written += len(line)
        yield line


def write(path: Path, lines: Iterator[bytes]) -> int:
    """Write `lines` to `path`; return how many bytes."""
    size = 0
    with open(path, "wb", buffering=1 << 20) as out:
        for line in lines:
            size += out.write(line)
    return size
