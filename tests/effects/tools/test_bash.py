"""A command runs, is bounded, and leaves nothing behind; with a sandbox and without."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.effects.tools.conftest import PLAIN, Run

from hhd.effects.cancel import Cancel
from hhd.effects.sandbox import Sandbox, SandboxConfig, detect
from hhd.effects.tools import supervisor

WALLS = detect(SandboxConfig())


@pytest.fixture(params=["plain", "walled"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "plain":
        return PLAIN
    if WALLS.program is None:
        pytest.skip(f"there is no sandbox here: {WALLS.reason}")
    return WALLS


def test_both_streams_come_back_in_order_and_the_status_is_said(run: Run, sandbox: Sandbox) -> None:
    reply = run("bash", sandbox=sandbox, command="echo one; echo two >&2; echo three; exit 3")
    assert reply.is_error
    assert reply.output == "one\ntwo\nthree\n[exit status 3]"
    assert run("bash", sandbox=sandbox, command="echo -n one; false").output == "one\n[exit status 1]"
    fine = run("bash", sandbox=sandbox, command="true")
    assert (fine.output, fine.is_error) == ("", False)


def test_a_signal_is_said_as_bash_says_it(run: Run, sandbox: Sandbox) -> None:
    assert run("bash", sandbox=sandbox, command="kill -9 $$").output == "[exit status 137]"


def test_the_command_runs_in_the_workspace_and_can_write_there(run: Run, sandbox: Sandbox, folder: Path) -> None:
    assert not run("bash", sandbox=sandbox, command="mkdir sub && cd sub && echo x > file").is_error
    assert (folder / "sub/file").read_text() == "x\n"


def test_standard_input_is_at_its_end(run: Run, sandbox: Sandbox) -> None:
    assert run("bash", sandbox=sandbox, command="cat; read x || echo end").output == "end\n"


def test_a_long_output_keeps_its_head_and_tail_and_says_what_is_gone(run: Run, sandbox: Sandbox) -> None:
    output = run("bash", sandbox=sandbox, command="seq 1 200000").output
    assert len(output) < 101_000
    assert output.startswith("1\n2\n") and output.endswith("\n200000\n")
    assert "bytes are left out here]" in output
    assert "\\n[0 bytes" not in output


def test_bytes_that_are_no_text_come_back_as_escapes(run: Run, sandbox: Sandbox) -> None:
    reply = run("bash", sandbox=sandbox, command=r"printf 'a\xff\x00\x1b[31mb'")
    assert reply.output == "a\\xff\x00\x1b[31mb"
    assert reply.encode() == b'{"is_error": false, "output": "a\\\\xff\\\\x00\\\\x1b[31mb"}'


def test_a_timeout_ends_the_command_and_keeps_its_output(run: Run, sandbox: Sandbox) -> None:
    reply = run("bash", sandbox=sandbox, command="echo begun; sleep 1000", timeout_seconds=1)
    assert reply.is_error and reply.output == "begun\n[ended after the timeout of 1 seconds]"


def test_a_command_that_closed_its_output_is_waited_for(run: Run, sandbox: Sandbox, folder: Path) -> None:
    run("bash", sandbox=sandbox, command="exec >&- 2>&-; sleep 0.3; touch done")
    assert (folder / "done").exists()


ESCAPES = {
    "a child": "sleep 1000 &",
    "a grandchild": "(sleep 1000 &) &",
    "a session of its own": "setsid sleep 1000 &",
    "a double fork out of the session": "setsid bash -c '(setsid sleep 1000 &) & exit' &",
    "deaf to signals": "setsid bash -c 'trap \"\" TERM INT HUP; sleep 1000; sleep 1000' &",
    "closed streams": "setsid sleep 1000 >/dev/null 2>&1 < /dev/null & disown",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_goes_on_after_the_command_has_ended(run: Run, sandbox: Sandbox, escape: str) -> None:
    mark = f"hhd-mark-{os.getpid()}-{os.urandom(4).hex()}"
    reply = run("bash", sandbox=sandbox, command=f"export MARK={mark}; {escape}\necho $!; sleep 0.2")
    assert not reply.is_error
    assert _marked(mark) == []


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_goes_on_after_the_person_ended_it(run: Run, sandbox: Sandbox, cancel: Cancel, escape: str) -> None:
    mark = f"hhd-mark-{os.getpid()}-{os.urandom(4).hex()}"
    command = f"export MARK={mark}; {escape}\necho begun > begun; sleep 1000"
    seen: list[list[int]] = []
    worker = threading.Thread(target=_cancel_when_marked, args=(mark, cancel, seen))
    worker.start()
    reply = run("bash", sandbox=sandbox, command=command)
    worker.join()
    assert reply.is_error and reply.output.endswith("[ended because the person asked for it]")
    assert seen[0], "control: it was running"
    assert _marked(mark) == []


def test_without_the_supervisors_hold_a_double_fork_would_go_on(folder: Path) -> None:
    mark = f"hhd-mark-{os.getpid()}-{os.urandom(4).hex()}"
    runs = folder / "runs"
    away = f"(setsid bash -c 'touch {runs}; exec sleep 1000' &) & exit"
    script = f'export MARK={mark}; setsid bash -c "{away}" & until [ -e {runs} ]; do sleep 0.01; done'
    os.spawnve(os.P_WAIT, "/bin/bash", ["bash", "-c", script], {"PATH": "/usr/bin:/bin"})
    left = _marked(mark)
    supervisor.send(left, 9)
    assert left, "control: this escape does get away from an ordinary shell"


def test_a_command_asked_for_after_the_person_said_stop_ends_at_once(run: Run, cancel: Cancel) -> None:
    cancel.set()
    assert run("bash", command="sleep 1000").output == "[ended because the person asked for it]"


def test_what_cannot_be_run_is_said_and_nothing_is_started(run: Run, tmp_path: Path) -> None:
    assert "not installed" in run("bash", command="true", environment={"PATH": str(tmp_path)}).output
    assert "NUL" in run("bash", command="a\0b").output
    assert "empty" in run("bash", command=" \n").output
    assert "passes" in run("bash", command="#" * 200_000).output


def test_the_largest_permitted_command_runs(run: Run, sandbox: Sandbox) -> None:
    command = "echo fine #" + "x" * (120 * 1024 - 11)
    assert run("bash", sandbox=sandbox, command=command).output == "fine\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_without_a_sandbox_a_command_cannot_read_hhds_environment(tmp_path: Path) -> None:
    """In processes of their own, as nobody where this is root's run: root may read everything."""
    program = (
        "import ctypes, os, sys; sys.path[:0] = sys.argv[1].split(':')\n"
        "from hhd.effects.tools.running import hide_own_memory\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)\n"  # As any process of a person has it; changing users cleared it.
        "if sys.argv[2] == 'hide': hide_own_memory()\n"
        "reader = os.fork()\n"
        "if reader == 0:\n"
        "    os.execv('/bin/cat', ['cat', f'/proc/{os.getppid()}/environ'])\n"
        "os.waitpid(reader, 0)\n"
    )
    for how, expected in (("hide", False), ("show", True)):
        words = [sys.executable, "-c", program, ":".join(sys.path), how]
        done = subprocess.run(words, env={**os.environ, "KEY": "sk-secret"}, capture_output=True, text=True, timeout=99)
        assert ("sk-secret" in done.stdout) is expected, (how, done.stderr)


def test_no_startup_file_of_bash_is_read(run: Run, sandbox: Sandbox, folder: Path) -> None:
    (folder / ".bashrc").write_text("echo rc")
    (folder / ".bash_profile").write_text("echo profile")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    assert run("bash", sandbox=sandbox, environment=environment, command="echo only").output == "only\n"


def _marked(mark: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


def _cancel_when_marked(mark: str, cancel: Cancel, seen: list[list[int]]) -> None:
    deadline = threading.Event()
    for _ in range(1000):
        if found := _marked(mark):
            seen.append(found)
            break
        deadline.wait(0.02)
    cancel.set()
