"""Looks at what is around hhd: programs that are made up, in the place of the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hhd.base import config
from hhd.effects import sandbox as effects_sandbox
from hhd.node.doctor import around
from hhd.node.doctor.finding import State


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of the PATH, with a shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def configure(text: str, mode: int = 0o600) -> None:
    config.path().parent.mkdir(parents=True, exist_ok=True)
    config.path().write_text(text)
    config.path().chmod(mode)


def test_no_sandbox_is_said_and_a_required_one_that_is_missing_is_broken(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects_sandbox, "_USUAL_PATH", "/nonexistent")
    found = around.sandbox()
    assert found.state is State.WARN and "Install bubblewrap" in found.fix
    program(programs, "bwrap", "echo 'No permissions to create new namespace' >&2; exit 1")
    found = around.sandbox()
    assert found.state is State.WARN and "No permissions" in found.says and "user namespaces" in found.fix
    configure('[policy.sandbox]\nuse = "require"\n')
    assert around.sandbox().state is State.BROKEN
    configure('[policy.sandbox]\nuse = "off"\n')
    assert 'use = "off"' in around.sandbox().fix
    configure('[policy.sandbox]\nuse = "nonsense"\n')
    assert around.sandbox().state is State.BROKEN
    configure("")
    program(programs, "bwrap", "exit 17")  # As the probe ends where it works.
    assert around.sandbox().state is State.OK


def test_a_socket_that_commands_can_reach(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects_sandbox, "_USUAL_PATH", "/nonexistent")
    assert around.separation().state is State.WARN
    program(programs, "bwrap", "exit 17")
    assert around.separation().state is State.OK


def test_git_that_is_not_there(programs: Path) -> None:
    assert around.git().state is State.BROKEN
    program(programs, "git", "echo git version 2.39.5")
    assert around.git().says == "git 2.39.5."
    program(programs, "git", "echo nonsense")
    assert around.git().state is State.WARN


def test_logind_that_does_not_answer(programs: Path) -> None:
    assert around.sleep().state is State.WARN
    program(programs, "systemd-inhibit", "exit 1")
    assert around.sleep().state is State.WARN
    program(programs, "systemd-inhibit", "exit 0")
    assert around.sleep().state is State.OK


def test_a_key_is_named_by_its_place_and_never_shown(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert around.model().state is State.WARN and "There is no key" in around.model().says
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-1")
    found = around.model()
    assert found.state is State.WARN and "ANTHROPIC_API_KEY" in found.says and "After a restart" in found.fix
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    table = '[model]\nname = "m"\nbase_url = "https://example.test"\napi_key = "sk-secret-2"\n'
    configure(table)
    kept = around.model()
    assert kept.state is State.OK
    configure(table, mode=0o644)
    opened = around.model()
    assert opened.state is State.BROKEN and f"chmod 600 {config.path()}" in opened.says
    configure('[model]\nname = "scripted:demo"\n')
    assert around.model().state is State.OK
    assert "sk-secret" not in repr((found, kept, opened))


def test_clients_that_are_newer_than_what_is_known(programs: Path) -> None:
    assert around.clients().says == "None is installed."
    program(programs, "claude", "echo '1.0.0 (Claude Code)'")
    assert around.clients().state is State.OK and "claude 1.0.0" in around.clients().says
    program(programs, "codex", "echo codex-cli 99.1.2")
    found = around.clients()
    assert found.state is State.WARN and "codex 99.1.2" in found.says and "claude" not in found.says.rpartition(": ")[2]
    program(programs, "codex", "exit 1")
    assert around.clients().state is State.WARN and around.clients().fix == "Run: codex --version"


def test_a_client_that_hangs_or_babbles_is_given_up_and_gets_no_key(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(around, "SECONDS_MAX", 0.3)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-3")
    program(programs, "pi", "while :; do :; done")
    assert around.clients().state is State.WARN
    monkeypatch.setattr(around, "SECONDS_MAX", 60)
    program(programs, "pi", 'echo "1.0.0"; [ -z "$ANTHROPIC_API_KEY" ] || echo 99.99')
    assert "pi 1.0.0" in around.clients().says
    program(programs, "pi", f"echo 1.{'9' * 5000}.0")
    assert around.clients().state is State.WARN


def test_the_versions_known_are_those_that_the_clients_are_tested_with() -> None:
    import json

    pinned = json.loads((Path(__file__).parents[2] / "clients/package.json").read_text())["dependencies"]
    known = {
        "claude": pinned["@anthropic-ai/claude-code"],
        "codex": pinned["@openai/codex"],
        "pi": pinned["@earendil-works/pi-coding-agent"],
    }
    assert known == around.CLIENTS
