"""A small laboratory for whole sessions: a repository with a failing test, scripts, `hhd` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MODULES = Path(__file__).parents[2] / "daemon" / "hhd" / "runtime" / "modules"

needs_agent = pytest.mark.skipif(not (MODULES / "agent.wasm").exists(), reason="the agent's module is not built")

BROKEN = "def double(n):\n    return n + n + 1\n"
FIXED = "def double(n):\n    return n + n\n"
TEST = "import doubles\n\nassert doubles.double(2) == 4, doubles.double(2)\nprint('the test passes')\n"

ALLOW = '[policy]\nallow = ["bash", "write", "edit"]\n'
"""A person who is asked nothing."""


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t_{name}", "name": name, "input": given}


def says(*blocks: dict[str, Any]) -> dict[str, Any]:
    """One reply of a script."""
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    return {"content": list(blocks), "stop_reason": reason}


EDIT = call("edit", path="doubles.py", old="n + n + 1", new="n + n")
FIX = [
    says(text("Looking."), call("read", path="doubles.py")),
    says(text("One too many."), EDIT),
    says(call("bash", command=f"{sys.executable} -B check.py")),
    says(text("It passes now.")),
]
"""A fix in four model calls and three tool calls."""


@dataclass(kw_only=True)
class Device:
    """One person's device: hhd's folders, an environment, nothing else."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    config: str = ""
    python: tuple[str, ...] = (sys.executable,)
    user: int | None = None

    def __post_init__(self) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
        folders = {f"HHD_{kind.upper()}_HOME": str(self.home / kind) for kind in ("config", "data")}
        cache = os.environ.get("HHD_CACHE_HOME", str(self.home / "cache"))
        own = {"HOME": str(self.home), "HHD_CACHE_HOME": cache, **folders}
        self.environ = {**kept, **own, **self.environ}
        (self.home / "config").mkdir(parents=True, exist_ok=True)
        (self.home / "config" / "config.toml").write_text(self.config)
        os.chmod(self.home / "config" / "config.toml", 0o600)

    def hhd(
        self, *words: str | Path, cwd: Path, typed: str = "", before: str = "", environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one command line; `before` is Python that runs in the process first."""
        return subprocess.run(
            self.command(*words, before=before),
            cwd=cwd,
            env={**self.environ, **(environ or {})},
            input=typed,
            capture_output=True,
            text=True,
            timeout=240,
            user=self.user,
            group=self.user,
        )

    def command(self, *words: str | Path, before: str = "") -> list[str]:
        code = f"{before}\nimport sys; from hhd.cli import run; sys.exit(run({[str(word) for word in words]!r}))"
        return [*self.python, "-c", code]


def repository(folder: Path) -> Path:
    """A git repository with one failing test."""
    folder.mkdir(parents=True)
    (folder / "doubles.py").write_text(BROKEN)
    (folder / "check.py").write_text(TEST)
    git = ["git", "-c", "user.name=alice", "-c", "user.email=alice@laptop.test"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run([*git, *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return folder


def script(file: Path, replies: Iterable[Mapping[str, Any] | str]) -> str:
    """Write a script; return the name of the model that follows it."""
    lines = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
    file.write_text("".join(f"{line}\n" for line in lines))
    return f"scripted:{file}"


def transcript(device: Device, capsule: Path) -> list[dict[str, Any]]:
    """The events of a session so far."""
    done = device.hhd("capsule", "transcript", capsule, cwd=capsule.parent)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def info(device: Device, capsule: Path) -> dict[str, Any]:
    """What `capsule info --json` says."""
    done = device.hhd("capsule", "info", capsule, "--json", cwd=capsule.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
