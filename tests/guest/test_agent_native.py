"""The agent's own tests, natively: scripts of turns, compaction, random replies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

WORKSPACE = Path(__file__).resolve().parents[2] / "guest"
DEBIAN_CRATES = Path("/usr/share/cargo/registry")
QUICK = {"CARGO_PROFILE_TEST_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
"""What saves a quarter of the time that it takes to build tests."""


def tool(name: str) -> str | None:
    """Debian's tool, which knows Debian's crates, else the first on PATH."""
    debian = f"/usr/bin/{name}"
    return debian if os.path.exists(debian) else shutil.which(name)


@pytest.mark.long
@pytest.mark.rebuild
def test_the_agent_passes_its_own_tests() -> None:
    tools = {name: tool(name) for name in ("cargo", "rustc", "rustdoc")}
    if missing := [name for name, path in tools.items() if path is None]:
        pytest.skip(f"{missing[0]} is not installed")
    command = [tools["cargo"], "test", "--locked", "--package", "agent"]
    if DEBIAN_CRATES.is_dir():
        crates = ('source.crates-io.replace-with="debian"', f'source.debian.directory="{DEBIAN_CRATES}"')
        command += ["--offline", *(word for one in crates for word in ("--config", one))]
    environment = {**os.environ, **QUICK, "RUSTC": tools["rustc"] or "", "RUSTDOC": tools["rustdoc"] or ""}
    done = subprocess.run(
        [word or "" for word in command], cwd=WORKSPACE, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("test result: ok") == 4
