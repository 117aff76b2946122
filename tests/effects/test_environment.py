"""A command's environment is a short list, and no secret slips in under another name."""

from __future__ import annotations

from hhd.effects.environment import for_commands

OURS = {
    "PATH": "/usr/bin:.::bin:/bin", "HOME": "/home/alice", "LANG": "de_DE.UTF-8", "LC_ALL": "C", "TMPDIR": "/tmp/x",
    "ANTHROPIC_API_KEY": "key", "AWS_SECRET_ACCESS_KEY": "aws", "SSH_AUTH_SOCK": "/s", "DBUS_SESSION_BUS_ADDRESS": "d",
    "LD_PRELOAD": "/evil.so", "BASH_ENV": "/evil", "BASH_FUNC_ls%%": "() { evil; }", "HHD_DATA_HOME": "/d",
    "PYTHONPATH": "/p", "TERM": "xterm", "USER": "key",
}  # fmt: skip


def test_only_what_is_listed_or_named_gets_in() -> None:
    found = for_commands(OURS, walled=False)
    assert set(found) == {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "TERM", "PAGER", "GIT_PAGER",
                          "GIT_TERMINAL_PROMPT", "HHD"}  # fmt: skip
    assert found["TERM"] == "dumb" and found["HOME"] == "/home/alice"
    assert for_commands(OURS, named=["AWS_SECRET_ACCESS_KEY"], walled=False)["AWS_SECRET_ACCESS_KEY"] == "aws"


def test_some_names_get_in_by_no_configuration() -> None:
    named = ["ANTHROPIC_API_KEY", "LD_PRELOAD", "BASH_ENV", "HHD_DATA_HOME"]
    assert set(for_commands(OURS, named=named, walled=False)) & set(named) == set()


def test_the_model_key_is_left_out_under_any_name() -> None:
    assert "USER" not in for_commands(OURS, secrets=["key", ""], walled=False)


def test_relative_entries_of_path_are_left_out() -> None:
    assert for_commands(OURS, walled=False)["PATH"] == "/usr/bin:/bin"
    assert for_commands({}, walled=False)["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert for_commands({"PATH": "."}, walled=False)["PATH"] == "/usr/local/bin:/usr/bin:/bin"


def test_in_the_sandbox_tmpdir_is_not_the_hidden_one() -> None:
    assert "TMPDIR" not in for_commands(OURS, walled=True)
