"""A real tool call of a daemon that a service manager started: it finds the PATH of a login, and tools on it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text

from hhd.node.answers.driven import Begun
from hhd_protocol import live

pytestmark = needs_agent

LOOK = "echo path=$PATH; echo key=$ANTHROPIC_API_KEY.; mytool; python3 --version"


def hardened(home: Path, *, config: str = ALLOW) -> Device:
    """A device whose daemon starts as the unit starts it: no PATH of a login, no privileges to gain."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    return Device(
        home=home,
        config=config,
        python=(setpriv, "--no-new-privs", sys.executable),
        environ={"PATH": "/usr/bin:/bin", "HOME": str(home), "ANTHROPIC_API_KEY": "not for commands"},
    )


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_tool_call_finds_what_a_login_finds(sandbox: str, tmp_path: Path) -> None:
    tools = tmp_path / "home/mine"
    tools.mkdir(parents=True)
    shown = f'[policy.sandbox]\nuse = "{sandbox}"\nwritable = ["{tools}"]\n'  # The sandbox has a /tmp of its own.
    device = hardened(tmp_path / "home", config=ALLOW + shown)
    (tools / "mytool").write_text("#!/bin/sh\necho my own tool\ngrep NoNewPrivs /proc/self/status\n")
    (tools / "mytool").chmod(0o755)
    (tmp_path / "home/.profile").write_text(f"export PATH={tools}:$PATH\n")
    repo = repository(tmp_path / "repo")
    model = script(tmp_path / "s.jsonl", [says(call("bash", command=LOOK)), says(text("Done."))])
    laptop = Daemon(device=device).up()
    try:
        given = {"prompt": "look", "folder": repo, "model": model}
        begun = laptop.asking.ask("begin", Begun, **given)  # No terminal hands an environment over.
        attached = laptop.attach(begun.session)
        attached.until(live.Listening)
        said = attached.transcript.decode()
        assert f"path={tools}:" in said and "my own tool" in said and "Python 3" in said, said
        assert "key=." in said and "not for commands" not in said
        assert "NoNewPrivs:\\t1" in said  # Positive control: the daemon did start with less.
    finally:
        laptop.down()


def test_a_login_shell_that_hangs_or_fails_is_said_and_commands_get_what_the_daemon_has(tmp_path: Path) -> None:
    device = hardened(tmp_path / "home")
    (tmp_path / "home/.profile").write_text("exit 1\n")
    (tmp_path / "home/.bash_profile").write_text("exit 1\n")
    repo = repository(tmp_path / "repo")
    model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo path=$PATH.")), says(text("Done."))])
    laptop = Daemon(device=device).up()
    try:
        begun = laptop.asking.ask("begin", Begun, prompt="look", folder=repo, model=model)
        attached = laptop.attach(begun.session)
        attached.until(live.Listening)
        assert "path=/usr/bin:/bin." in attached.transcript.decode()
        said = device.hhd("status", cwd=repo).stdout
        assert "did not say what environment a login has" in said and os.sep in said
    finally:
        laptop.down()


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_commands_have_the_umask_that_the_daemon_was_given_and_what_the_daemon_keeps_is_private_under_any(
    mask: int, tmp_path: Path
) -> None:
    device = hardened(tmp_path / "home")
    repo = repository(tmp_path / "repo")
    model = script(tmp_path / "s.jsonl", [says(call("bash", command="echo x > made")), says(text("Done."))])
    laptop = Daemon(device=device, before=f"import os; os.umask({mask})").up()
    try:
        begun = laptop.asking.ask("begin", Begun, prompt="look", folder=repo, model=model)
        laptop.attach(begun.session).until(live.Listening)
        assert (repo / "made").stat().st_mode & 0o777 == 0o666 & ~mask
        kept = [laptop.data, *laptop.data.rglob("*")]
        modes = {path.relative_to(laptop.data): path.lstat().st_mode for path in kept if path.exists()}
        assert Path("store/store.db") in modes and Path("logs/daemon.jsonl") in modes
        # SQLite makes the files beside its own; the folder that they are in is private.
        beside = {Path("store/store.db-shm"), Path("store/store.db-wal")}
        assert not {path: oct(mode) for path, mode in modes.items() if mode & 0o077 and path not in beside}
    finally:
        laptop.down()
