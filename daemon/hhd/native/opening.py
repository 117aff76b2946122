"""Opens a session file of whichever client: by its content, then by its name."""

from __future__ import annotations

import json
from pathlib import Path

from hhd.native.reading import NotASessionError, Progress, Reading, nothing
from hhd.native.source import BOM, Source
from hhd_protocol.transcript import Harness

_SNIFF_BYTES = 256 * 1024
_SNIFF_LINES = 50


def open_session(
    path: Path, *, progress: Progress = nothing, begin: int = 0, harness: Harness | None = None
) -> Reading:
    """Open the session in `path`. Raises OSError, NotASessionError.

    `begin`: only the tail from this byte, which must begin a line. `harness`: None finds out.
    """
    harness = harness or sniff(path)
    if harness is Harness.CLAUDE:
        from hhd.native.claude import ClaudeReading

        return ClaudeReading(path, progress=progress, begin=begin)
    if harness is Harness.CODEX:
        from hhd.native.codex import CodexReading

        return CodexReading(path, progress=progress, begin=begin)
    from hhd.native.pi import PiReading

    return PiReading(path, progress=progress, begin=begin)


def sniff(path: Path) -> Harness:
    """Whose session `path` is. Raises OSError, NotASessionError."""
    with Source(path) as source:
        raw = source.read(0, min(_SNIFF_BYTES, source.end))
    if raw.startswith(BOM):
        raw = raw[len(BOM) :]
    for line in raw.split(b"\n", _SNIFF_LINES)[:_SNIFF_LINES]:
        if found := _line(line):
            return found
    if path.name.startswith("rollout-"):
        return Harness.CODEX
    # The first line may be longer than what was looked at: its first keys tell.
    begin = raw[:4096]
    for mark, harness in (
        (b'"payload"', Harness.CODEX),
        (b'"parentUuid"', Harness.CLAUDE),
        (b'"sessionId"', Harness.CLAUDE),
        (b'"parentId"', Harness.PI),
    ):
        if mark in begin:
            return harness
    raise NotASessionError(f"{path} is not a session of Claude Code, Codex or Pi; nothing was read.")


def _line(line: bytes) -> Harness | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    kind = record.get("type")
    if kind == "session_meta" or ("payload" in record and "timestamp" in record):
        return Harness.CODEX
    if kind == "session" and ("cwd" in record or "version" in record):
        return Harness.PI
    if "parentUuid" in record or "sessionId" in record or "leafUuid" in record or "uuid" in record:
        return Harness.CLAUDE
    if "parentId" in record and "id" in record:
        return Harness.PI
    return None
