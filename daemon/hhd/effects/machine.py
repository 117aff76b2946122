"""The facts of this device that a move may change, as the agent is told them: system, tools, date; no name, no path."""

from __future__ import annotations

import datetime
import json
import platform
import shutil

TOOLS = (
    *(
        "bash",
        "bwrap",
        "bun",
        "bundle",
        "cargo",
        "clang",
        "cmake",
        "composer",
        "curl",
        "deno",
        "docker",
        "dotnet",
        "gcc",
    ),
    *("gh", "git", "go", "gradle", "java", "jq", "just", "make", "meson", "mix", "mvn", "ninja", "node", "npm", "perl"),
    *("php", "pip", "pnpm", "podman", "poetry", "psql", "pytest", "python3", "rg", "ruby", "ruff", "rustc", "sqlite3"),
    *("swift", "tox", "uv", "yarn", "zig"),
)
"""Programs whose presence changes how one works on a project."""


def facts(today: datetime.date, path: str | None = None) -> bytes:
    """The reply to a `machine` effect; tools are looked for in `path` (None: this process's PATH)."""
    found = {
        "date": today.isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "tools": [name for name in TOOLS if shutil.which(name, path=path)],
    }
    return json.dumps(found, separators=(",", ":")).encode()
