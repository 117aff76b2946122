"""A model that reads its replies from a script: JSON Lines, one reply a line, in order.

A line is `{"content": [...], "stop_reason": "..."}` as in the Messages API, or `{"error": {...}, "status": 529}`.
Empty lines count as lines but hold no reply. Which reply is next follows from how many model calls the session has had
answered, never from this process: a session that moved goes on at its own place.
"""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass
from pathlib import Path

from hhd.base.errors import UsageError
from hhd.base.text import visible
from hhd.effects.model import Kind, ModelUnavailable, Told, Watch, encode_reply
from hhd_protocol.limits import EFFECT_BYTES_MAX

SCRIPT_BYTES_MAX = 256 * 1024 * 1024
"""A script is read into memory; this is a long session's worth of the largest replies."""

_NO_USAGE: dict[str, object] = {"input_tokens": 0, "output_tokens": 0}


@dataclass(frozen=True, kw_only=True)
class Script:
    """Replies in order: `replies` pairs each with its line number, the first being 1."""

    name: str
    replies: tuple[tuple[int, bytes], ...]

    @classmethod
    def open(cls, name: str, folder: Path) -> Script:
        """Read the file `name` (relative to `folder`), or else the script of that name that comes with hhd."""
        file = folder / Path(name).expanduser()
        try:
            with open(file, "rb") as source:
                raw = source.read(SCRIPT_BYTES_MAX + 1)
        except FileNotFoundError:
            raw = _embedded(name, file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise UsageError(f"The script {visible(str(file), one_line=True)} cannot be read: {reason}.") from error
        if len(raw) > SCRIPT_BYTES_MAX:
            raise UsageError(f"The script {visible(str(file), one_line=True)} passes {SCRIPT_BYTES_MAX} bytes.")
        lines = enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
        return cls(name=name, replies=tuple((number, line) for number, line in lines if line.strip()))

    def answer(self, request: bytes, *, position: int, watch: Watch) -> bytes:
        """Return reply `position`, whatever was asked."""
        if position >= len(self.replies):
            raise ModelUnavailable(
                f"The script {self._shown()} holds {len(self.replies)} replies and the session asks for number "
                f"{position + 1}."
            )
        number, line = self.replies[position]
        reply = self._reply(number, line)
        content = reply.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "text":
                watch(Told(kind=Kind.TEXT, text=str(block.get("text", ""))))
        try:
            raw = encode_reply(reply)
        except ValueError as error:
            raise self._bad(number, "holds text that is not Unicode, or a number that is not one") from error
        if len(raw) > EFFECT_BYTES_MAX:
            raise self._bad(number, f"passes {EFFECT_BYTES_MAX} bytes")
        return raw

    def _reply(self, number: int, line: bytes) -> dict[str, object]:
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._bad(number, "is not JSON") from error
        if not isinstance(reply, dict):
            raise self._bad(number, "is not a JSON object")
        if isinstance(reply.get("error"), dict):
            status = reply.setdefault("status", 500)
            if type(status) is not int:
                raise self._bad(number, "has a status that is not a whole number")
            return reply
        content = reply.get("content")
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise self._bad(number, 'has neither "content", a list of blocks, nor "error", an object')
        if not isinstance(reply.get("stop_reason"), str):
            raise self._bad(number, 'has no "stop_reason"')
        reply.setdefault("usage", _NO_USAGE)
        return reply

    def _bad(self, number: int, what: str) -> ModelUnavailable:
        return ModelUnavailable(f"Line {number} of the script {self._shown()} {what}.")

    def _shown(self) -> str:
        return visible(self.name, one_line=True)


def _embedded(name: str, file: Path) -> bytes:
    folder = importlib.resources.files("hhd.effects") / "scripts"
    known = sorted(entry.name.removesuffix(".jsonl") for entry in folder.iterdir() if entry.name.endswith(".jsonl"))
    if name in known:
        return (folder / f"{name}.jsonl").read_bytes()
    shown = visible(str(file), one_line=True)
    raise UsageError(f"There is no script {shown}, and none of that name comes with hhd ({', '.join(known)}).")
