"""`hhd config`: where it is, what is set, what could be set; never a key."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib

import pytest

from hhd.base import config
from hhd.cli import run
from hhd.effects.sandbox import SandboxConfig


def test_the_example_is_a_file_that_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--example"]) == 0
    text = capsys.readouterr().out
    config.path().parent.mkdir(parents=True)
    before = config.load()
    config.path().write_text(text)
    assert config.load().model == before.model and config.load().policy == {"sandbox": {}}


def test_the_example_names_every_setting_and_each_is_known_when_it_stands_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["config", "--example"]) == 0
    text = re.sub(r"(?m)^# (?=\w+ = )", "", capsys.readouterr().out)
    named = tomllib.loads(text)
    for table, keys in config.TABLES.items():
        assert named[table].keys() == keys.keys()
    assert named["policy"].pop("sandbox").keys() == {field.name for field in dataclasses.fields(SandboxConfig)}
    assert named["policy"].keys() == {"allow", "ask", "deny", "environment"}
    config.path().parent.mkdir(parents=True)
    config.path().write_text(text)
    config.path().chmod(0o600)
    assert run(["policy", "show"]) == 0
    assert "bash(npm test *)" in capsys.readouterr().out


def test_what_holds_is_said_of_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    config.path().parent.mkdir(parents=True)
    config.path().write_text("[store]\nkeep_days = 7\n[identity]\nkeyring = true\n")
    assert run(["config"]) == 0
    out = capsys.readouterr().out
    assert "store.keep_days = 7" in out and "identity.keyring = True" in out and "store.bytes_max = 0" in out


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
