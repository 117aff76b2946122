"""`hhd policy` tells what is in force and what would become of a call, and runs nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hhd.base.paths import config_folder, data_folder
from hhd.cli import run

CONFIG = """
[policy]
allow = ["bash(npm test *)", "write(docs/**)"]
deny = ["bash(git push *)"]
environment = ["NPM_TOKEN"]
"""


@pytest.fixture(autouse=True)
def _config() -> None:
    config_folder().mkdir(parents=True)
    (config_folder() / "config.toml").write_text(CONFIG)


def test_show_names_the_rules_the_defaults_and_the_walls(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "show"]) == 0
    out = capsys.readouterr().out
    for part in ("allow bash(npm test *)", "deny  bash(git push *)", "ask   bash", "NPM_TOKEN", "sandbox"):
        assert part in out, part
    assert run(["policy", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {"verdict": "deny", "rule": "bash(git push *)"} in shown["rules"]
    assert shown["defaults"]["read"] == "allow" and isinstance(shown["sandbox"]["on"], bool)


@pytest.mark.parametrize(
    ("tool", "what", "verdict"),
    [
        ("bash", "npm test -- -x", "allow"), ("bash", "npm test; rm x", "ask"), ("bash", "git push", "deny"),
        ("write", "docs/a", "allow"), ("write", "src/a", "ask"), ("write", "../a", "refused"), ("read", "a", "allow"),
        ("write", ".git/config", "refused"), ("read", ".git/config", "ask"), ("edit", "out/x", "refused"),
    ],
)  # fmt: skip
def test_check_says_what_would_become_of_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, what: str, verdict: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "out").symlink_to("..")
    assert run(["policy", "check", tool, what, "-C", str(work), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict
    assert os.listdir(work) == ["out"]


def test_hhds_own_folders_are_refused_even_where_they_lie_in_the_workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_folder().mkdir()
    assert run(["policy", "check", "read", data_folder().name + "/key", "-C", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("refused: ")


def test_what_cannot_be_used_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check", "launch", "x"]) == 2
    (config_folder() / "config.toml").write_text('[policy]\nallow = ["bash(*)"]\n')
    assert run(["policy", "show"]) == 3
    assert "would allow any command" in capsys.readouterr().err
