"""What a terminal gives along with a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hhd.base.errors import RefusedError
from hhd.base.paths import config_folder
from hhd.node import terminal


def config(text: str) -> None:
    config_folder().mkdir(parents=True, exist_ok=True)
    (config_folder() / "config.toml").write_text(text)


def test_only_what_may_pass_goes_along_and_what_the_model_needs() -> None:
    config('[policy]\nenvironment = ["NPM_TOKEN"]\n')
    around = {"PATH": "/bin", "LC_ALL": "C", "NPM_TOKEN": "t", "AWS_SECRET": "s", "SSH_AUTH_SOCK": "/s", "LANG": ""}
    service = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://x", "ANTHROPIC_LOG": "debug"}
    assert terminal.environment(around | service) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "NPM_TOKEN": "t",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": "https://x",
    }
    config('[policy]\nenvironment = ["LD_PRELOAD"]\n')
    with pytest.raises(RefusedError):
        terminal.environment({})


def test_a_script_is_found_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text("")
    (tmp_path / "demo").write_text("")
    assert terminal.model("scripted:s.jsonl", tmp_path) == f"scripted:{tmp_path / 's.jsonl'}"
    assert terminal.model("scripted:demo", tmp_path) == f"scripted:{tmp_path / 'demo'}", "what is here goes first"
    os.unlink(tmp_path / "demo")
    assert terminal.model("scripted:demo", tmp_path) == "scripted:demo"
    assert terminal.model("scripted:gone.jsonl", tmp_path) == f"scripted:{tmp_path / 'gone.jsonl'}"
    assert terminal.model("claude-x", tmp_path) == "claude-x" and terminal.model(None, tmp_path) is None
