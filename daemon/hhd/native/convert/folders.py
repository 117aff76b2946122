"""Where each client looks for its sessions, and under which name."""

from __future__ import annotations

import os
from pathlib import Path

from hhd.native.convert.writer import Session
from hhd_protocol.transcript import Harness

_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_SLUG_CHARS_MAX = 200


def place(home: Path, harness: Harness, session: Session) -> Path:
    """The path of the session's file below `home`, the client's own folder (`.claude`, `.codex`, `.pi/agent`)."""
    stamp = session.started[:19].replace(":", "-")
    if harness is Harness.CLAUDE:
        return home / "projects" / claude_slug(session.cwd) / f"{session.id}.jsonl"
    if harness is Harness.CODEX:
        day = session.started[:10].split("-")
        return home / "sessions" / day[0] / day[1] / day[2] / f"rollout-{stamp}-{session.id}.jsonl"
    time = session.started.replace(":", "-").replace(".", "-")
    return home / "sessions" / pi_folder(session.cwd) / f"{time}_{session.id}.jsonl"


def claude_slug(cwd: str) -> str:
    """The folder of a working directory: what is no ASCII letter or digit becomes a dash, one a UTF-16 unit."""
    real = os.path.realpath(cwd)
    slug = "".join(c if c.isascii() and c.isalnum() else "-" * (1 if ord(c) < 0x10000 else 2) for c in real)
    if len(slug) <= _SLUG_CHARS_MAX:
        return slug
    return f"{slug[:_SLUG_CHARS_MAX]}-{_hash36(real)}"


def pi_folder(cwd: str) -> str:
    """Pi's folder of a working directory."""
    return "--" + cwd.removeprefix("/").translate(str.maketrans("/\\:", "---")) + "--"


def _hash36(text: str) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + (low | high << 8)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    value, digits = abs(signed), ""
    while value:
        value, digit = divmod(value, 36)
        digits = _BASE36[digit] + digits
    return digits or "0"
