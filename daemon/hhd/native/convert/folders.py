"""Where each client looks for its sessions, and under which name."""

from __future__ import annotations

import os
from pathlib import Path

from hhd.native.convert.writer import Session
from hhd.native.homes import UUID, claude_slug
from hhd_protocol.transcript import Harness


def place(home: Path, harness: Harness, session: Session) -> Path:
    """The path of the session's file below `home`, the client's own folder (`.claude`, `.codex`, `.pi/agent`)."""
    stamp = session.started[:19].replace(":", "-")
    if harness is Harness.CLAUDE:
        return home / "projects" / claude_slug(os.path.realpath(session.cwd)) / f"{session.id}.jsonl"
    if harness is Harness.CODEX:
        day = session.started[:10].split("-")
        return home / "sessions" / day[0] / day[1] / day[2] / f"rollout-{stamp}-{session.id}.jsonl"
    time = session.started.replace(":", "-").replace(".", "-")
    return home / "sessions" / pi_folder(session.cwd) / f"{time}_{session.id}.jsonl"


def has_rollout(home: Path, thread: str) -> bool:
    """Whether Codex finds the thread of that id below `home`, its own folder."""
    if not UUID.fullmatch(thread):
        return False
    roots = (home / "sessions", home / "archived_sessions")
    return any(True for root in roots for _ in root.rglob(f"rollout-*{thread}.jsonl*"))


def pi_folder(cwd: str) -> str:
    """Pi's folder of a working directory."""
    return "--" + cwd.removeprefix("/").translate(str.maketrans("/\\:", "---")) + "--"
