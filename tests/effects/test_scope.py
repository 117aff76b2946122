"""Commands of a daemon that is a service: in scopes of their own, the same processes as without."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from hhd.effects import scope
from hhd.effects.cancel import Cancel
from hhd.effects.confine import Workspace
from hhd.effects.sandbox import Sandbox
from hhd.effects.scope import Scope, _detected
from hhd.effects.tools.running import run_to_end
from hhd.effects.tools.tool import Context

IN_UNIT = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/hhd.service\n"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`systemd-run` as far as a scope goes: notes its words and becomes the command."""
    program = tmp_path / "bin/systemd-run"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$XDG_RUNTIME_DIR $@" >> {tmp_path}/calls\n'
        'while [ "$1" != -- ]; do shift; done; shift\nexec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def detected(tmp_path: Path, cgroup: str) -> Scope:
    (tmp_path / "cgroup").write_text(cgroup)
    return _detected(tmp_path / "cgroup", {"XDG_RUNTIME_DIR": "/run/user/7", "OTHER": "x"})


def test_in_the_unit_a_command_gets_a_scope_and_nothing_of_the_managers_address(tmp_path: Path, runner: Path) -> None:
    found = detected(tmp_path, IN_UNIT)
    assert found.is_there
    words, around = found.wrap(["/bin/sh", "-c", "echo $$; env"], {"A": "b c"})
    process = subprocess.Popen(words, env=around, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=240)
    lines = out.splitlines()
    assert lines[0] == str(process.pid)  # It is still the child that was started.
    assert "A=b c" in lines and not [line for line in lines if "XDG_RUNTIME_DIR" in line]
    call = (tmp_path / "calls").read_text().splitlines()[-1]
    assert call.startswith("/run/user/7 --user --scope --quiet --collect --unit=hhd-command-")


def test_a_variable_of_that_name_that_a_command_has_itself_is_kept(tmp_path: Path, runner: Path) -> None:
    words, around = detected(tmp_path, IN_UNIT).wrap(
        ["/bin/sh", "-c", "echo $XDG_RUNTIME_DIR"], {"XDG_RUNTIME_DIR": "/mine"}
    )
    assert subprocess.run(words, env=around, capture_output=True, text=True).stdout == "/mine\n"


@pytest.mark.parametrize("cgroup", ["0::/user.slice/session-3.scope\n", "0::/not-hhd.service\n", "", "\xff nonsense"])
def test_elsewhere_than_in_the_unit_nothing_is_wrapped(cgroup: str, tmp_path: Path, runner: Path) -> None:
    found = detected(tmp_path, cgroup)
    assert not found.is_there and found.wrap(["/bin/true"], {"A": "b"}) == (["/bin/true"], {"A": "b"})
    assert not _detected(tmp_path / "none", {}).is_there


def test_where_no_manager_makes_one_commands_run_as_without(tmp_path: Path, runner: Path) -> None:
    runner.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    assert not detected(tmp_path, IN_UNIT).is_there


def test_commands_of_tools_go_through_it(tmp_path: Path, runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "detect", lambda: detected(tmp_path, IN_UNIT))
    plain = Sandbox(program=None, reason="a test", network=True, hidden=())
    with Workspace(tmp_path) as workspace, contextlib.closing(Cancel()) as cancel:
        context = Context(workspace=workspace, sandbox=plain, environment={"PATH": os.defpath}, cancel=cancel)
        ended = run_to_end(["/bin/sh", "-c", "echo here; exit 5"], context, 60)
    assert (ended.output, ended.status) == ("here\n", 5)
    assert "hhd-command-" in (tmp_path / "calls").read_text().splitlines()[-1]
