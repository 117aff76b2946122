"""What is kept of a terminal's environment: what commands may get, the model's address with its key, nothing else."""

from __future__ import annotations

from hhd.base import paths
from hhd.node import handed
from hhd.node.going import Hand

TERMINAL = {
    "PATH": "/usr/bin:bin",
    "LC_ALL": "de_DE.UTF-8",
    "SSH_AUTH_SOCK": "/run/agent",
    "GITHUB_TOKEN": "secret",
    "LD_PRELOAD": "/x.so",
    "FOO": "named",
}


def test_only_what_commands_may_have_is_kept() -> None:
    paths.config_folder().mkdir(parents=True)
    (paths.config_folder() / "config.toml").write_text('[policy]\nenvironment = ["FOO"]\n')
    kept = handed.hand(TERMINAL, None)
    assert kept.model is None and kept.environment is not None
    assert kept.environment["PATH"] == "/usr/bin" and kept.environment["FOO"] == "named"
    assert not {"SSH_AUTH_SOCK", "GITHUB_TOKEN", "LD_PRELOAD"} & kept.environment.keys()


def test_an_address_goes_with_the_key_that_was_set_beside_it_and_neither_reaches_commands() -> None:
    around = {**TERMINAL, "ANTHROPIC_BASE_URL": "https://proxy.test", "ANTHROPIC_AUTH_TOKEN": "token"}
    kept = handed.hand({**around, "LC_X": "has token in it"}, None)
    assert kept.model == {"ANTHROPIC_BASE_URL": "https://proxy.test", "ANTHROPIC_AUTH_TOKEN": "token"}
    assert kept.environment is not None and not [value for value in kept.environment.values() if "token" in value]
    assert handed.hand(None, "key") == Hand(environment=None, model={"ANTHROPIC_API_KEY": "key"})
    assert handed.hand(around, "key").model == {"ANTHROPIC_BASE_URL": "https://proxy.test", "ANTHROPIC_API_KEY": "key"}
    assert handed.hand({"ANTHROPIC_BASE_URL": "https://proxy.test"}, None).model is None
