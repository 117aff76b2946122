"""The configuration file: what is understood, what is refused by name, and which key goes where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hhd.base import config
from hhd.base.errors import RefusedError


def written(text: str, mode: int = 0o600) -> Path:
    file = config.path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.chmod(file, mode)
    return file


def test_no_file_is_all_defaults() -> None:
    loaded = config.load()
    assert loaded.model.name == config.MODEL_DEFAULT
    assert loaded.policy == {}


def test_the_documented_file_changes_nothing() -> None:
    before = config.load()
    written(config.document(), 0o644)
    assert config.load().model == before.model


def test_the_documented_file_with_every_line_live_is_understood() -> None:
    lines = [line.removeprefix("# ") if " = " in line else line for line in config.document().splitlines()]
    written("\n".join(lines))
    assert config.load().model.calls_max == config.MODEL_KEYS["calls_max"].default


def test_settings_are_read() -> None:
    written('format = 1\n[model]\nname = "m"\ntimeout_seconds = 5\n[policy]\nanything = 1\n')
    loaded = config.load()
    assert (loaded.model.name, loaded.model.timeout_seconds, loaded.policy) == ("m", 5.0, {"anything": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[model]\ncals_max = 5\n", r"\[model\] 'cals_max' .* did you mean calls_max\?"),
        ("[modle]\n", "'modle' is not a setting of hhd; did you mean model"),
        ("[model]\ncalls_max = '5'\n", r"\[model\] calls_max must be a whole number"),
        ("[model]\ncalls_max = true\n", "whole number"),
        ("[model]\ncalls_max = 0\n", "from 1 to"),
        ("[model]\ntimeout_seconds = nan\n", "from 1 to"),
        ("[model]\nname = ''\n", "is empty"),
        ("model = 3\n", r"must be a table, \[model\]"),
        ("policy = 3\n", r"must be a table, \[policy\]"),
        ("format = 2\n", "upgrade hhd"),
        ("format = 'x'\n", "whole number from 1"),
        ("format = = 1\n", "is not TOML"),
        ("\x00", "is not TOML"),
    ],
)
def test_nonsense_is_refused_by_name(text: str, said: str) -> None:
    file = written(text)
    with pytest.raises(RefusedError, match=said) as raised:
        config.load()
    assert str(file) in str(raised.value) and len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620])
def test_a_key_that_others_can_read_is_refused_with_the_remedy(mode: int) -> None:
    file = written('[model]\napi_key = "sk-1"\n', mode)
    with pytest.raises(RefusedError, match="chmod 600") as raised:
        config.load()
    assert "sk-1" not in str(raised.value)
    os.chmod(file, 0o600)
    assert config.load().model.api_key == "sk-1"


def test_a_key_is_in_no_repr() -> None:
    written('[model]\napi_key = "sk-1"\nauth_token = "sk-1"\n')
    loaded = config.load()
    assert "sk-1" not in repr(loaded) and "sk-1" not in repr(loaded.model.credential({}))


FILE_PAIR = '[model]\nbase_url = "https://own.example"\napi_key = "file-key"\n'
PAIRINGS = [
    ("", {"ANTHROPIC_API_KEY": "k"}, (config.SERVICE_DEFAULT, "k", None)),
    ("", {"ANTHROPIC_AUTH_TOKEN": "t"}, (config.SERVICE_DEFAULT, None, "t")),
    ("", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "k"}, ("http://127.0.0.1:9", "k", None)),
    ('[model]\napi_key = "file-key"\n', {}, (config.SERVICE_DEFAULT, "file-key", None)),
    ('[model]\napi_key = "file-key"\n', {"ANTHROPIC_API_KEY": "k"}, (config.SERVICE_DEFAULT, "k", None)),
    ('[model]\nbase_url = "https://own.example"\n', {"ANTHROPIC_API_KEY": "k"}, ("https://own.example", "k", None)),
    (FILE_PAIR, {}, ("https://own.example", "file-key", None)),
    (FILE_PAIR, {"ANTHROPIC_API_KEY": "k"}, ("https://own.example", "file-key", None)),
    (
        FILE_PAIR,
        {"ANTHROPIC_BASE_URL": "https://env.example", "ANTHROPIC_API_KEY": "k"},
        ("https://env.example", "k", None),
    ),
]


@pytest.mark.parametrize(("text", "environ", "expected"), PAIRINGS)
def test_a_key_goes_to_the_address_it_was_set_for(
    text: str, environ: dict[str, str], expected: tuple[str, str | None, str | None]
) -> None:
    written(text)
    credential = config.load().model.credential(environ)
    assert (credential.base_url, credential.api_key, credential.auth_token) == expected


def test_a_key_set_beside_one_address_is_never_sent_to_another() -> None:
    written(FILE_PAIR)
    with pytest.raises(RefusedError, match=r"no key for env\.example"):
        config.load().model.credential({"ANTHROPIC_BASE_URL": "https://env.example"})


def test_no_key_is_one_sentence_that_says_where_to_put_one() -> None:
    with pytest.raises(RefusedError, match=r"ANTHROPIC_API_KEY.*config\.toml"):
        config.load().model.credential({})


@pytest.mark.parametrize("url", ["http://models.example", "http://127.0.0.1.example", "http://127.evil.example:80/v1"])
def test_nothing_goes_unencrypted_over_a_network_unless_allowed(url: str) -> None:
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}
    with pytest.raises(RefusedError, match="allow_plain_http"):
        config.load().model.credential(environ)
    written("[model]\nallow_plain_http = true\n")
    assert config.load().model.credential(environ).base_url == url


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "https://user:pw@host", "https://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(RefusedError) as raised:
        config.load().model.credential({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"})
    assert "pw" not in str(raised.value)
