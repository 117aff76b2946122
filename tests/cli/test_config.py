"""`hhd config`: where it is, what is set, what could be set; never a key."""

from __future__ import annotations

import os

import pytest

from hhd.base import config
from hhd.cli import run


def test_the_example_is_a_file_that_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--example"]) == 0
    text = capsys.readouterr().out
    config.path().parent.mkdir(parents=True)
    before = config.load()
    config.path().write_text(text)
    assert config.load().model == before.model and config.load().policy == {"sandbox": {}}


def test_a_key_is_never_shown(capsys: pytest.CaptureFixture[str]) -> None:
    config.path().parent.mkdir(parents=True)
    config.path().write_text('[model]\napi_key = "sk-1"\nname = "m"\n[policy]\nallow = ["read"]\n')
    os.chmod(config.path(), 0o600)
    assert run(["config"]) == 0
    out = capsys.readouterr().out
    assert str(config.path()) in out and "model.name = m" in out and "policy.allow" in out and "sk-1" not in out


def test_no_file_is_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config"]) == 0
    assert "not there: all defaults" in capsys.readouterr().out
