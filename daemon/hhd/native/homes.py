"""Where each client keeps its sessions, by the client's own rules, in any home."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hhd_protocol.transcript import Harness

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ROLLOUT = re.compile(r"rollout-.*?(" + UUID.pattern + r")\.jsonl(?:\.zst)?\Z")

SLUG_CHARS_MAX = 200
"""The client's own bound for the name of a project folder."""


@dataclass(frozen=True, kw_only=True)
class Homes:
    """The folders of the three clients."""

    claude: Path
    codex: Path
    pi: Path
    pi_sessions: Path | None = None
    """A folder that holds Pi's sessions directly, whatever their working directory."""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Homes:
        """The homes that the clients would use in `environment`."""
        home = Path(environment.get("HOME") or os.path.expanduser("~"))
        sessions = environment.get("PI_CODING_AGENT_SESSION_DIR")
        return cls(
            claude=_expand(environment.get("CLAUDE_CONFIG_DIR"), home) or home / ".claude",
            codex=_expand(environment.get("CODEX_HOME"), home) or home / ".codex",
            pi=_expand(environment.get("PI_CODING_AGENT_DIR"), home) or home / ".pi" / "agent",
            pi_sessions=_expand(sessions, home),
        )

    def files(self, harness: Harness) -> Iterator[os.DirEntry[str]]:
        """The session files of one client; folders that are not there or not ours to read hold none."""
        if harness is Harness.CLAUDE:
            for project in _folders(self.claude / "projects"):
                for entry in _entries(project):
                    if entry.name.endswith(".jsonl") and UUID.fullmatch(entry.name[:-6]):
                        yield entry
        elif harness is Harness.CODEX:
            for root in ("sessions", "archived_sessions"):
                yield from _rollouts(self.codex / root, 0)
        else:
            roots = list(_folders(self.pi / "sessions"))
            for folder in [*roots, *([str(self.pi_sessions)] if self.pi_sessions else [])]:
                for entry in _entries(folder):
                    if entry.name.endswith(".jsonl"):
                        yield entry


def claude_slug(path: str) -> str:
    """The name of the folder for sessions of the working directory `path` (a real path)."""
    units = path.encode("utf-16-le", "surrogatepass")
    codes = [units[i] | units[i + 1] << 8 for i in range(0, len(units), 2)]
    slug = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(slug) <= SLUG_CHARS_MAX:
        return slug
    value = 0
    for code in codes:
        value = (value * 31 + code) & 0xFFFFFFFF
    return f"{slug[:SLUG_CHARS_MAX]}-{_base36(abs(value - (1 << 32) if value >> 31 else value))}"


def pi_folder(path: str) -> str:
    """The name of the folder for sessions of the working directory `path`."""
    return "--" + re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", path)) + "--"


def codex_id(name: str) -> str | None:
    """The thread id in the name of a rollout, or None if the client would not take it for one."""
    found = _ROLLOUT.match(name)
    return found.group(1) if found else None


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def _expand(value: str | None, home: Path) -> Path | None:
    if not value:
        return None
    if value == "~" or value.startswith("~/"):
        return home / value[2:]
    return Path(value)


def _entries(folder: str | Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from (entry for entry in found if entry.is_file(follow_symlinks=True))
    except OSError:
        return


def _folders(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            yield from [entry.path for entry in found if entry.is_dir(follow_symlinks=True)]
    except OSError:
        return


def _rollouts(folder: Path, depth: int) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder):
        if codex_id(entry.name):
            yield entry
    if depth < 4:
        for inner in _folders(folder):
            yield from _rollouts(Path(inner), depth + 1)
