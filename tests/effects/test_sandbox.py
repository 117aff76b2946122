"""Within the walls a command finds neither hhd's keys nor anybody's sockets; without them, the status says so."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hhd.base import paths
from hhd.base.errors import RefusedError
from hhd.effects.cancel import Cancel
from hhd.effects.confine import Workspace
from hhd.effects.sandbox import Sandbox, SandboxConfig, detect
from hhd.effects.tools.bash import BASH, BashInput
from hhd.effects.tools.tool import Context, Reply

OFF = Sandbox(program=None, reason="switched off by the test", network=True, hidden=())


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder with hhd's folders and other people's secrets in it, and a project.

    Not below /tmp, which is empty inside the walls: there everything would seem hidden.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hhd-test-") as name:
        yield _furnished(Path(name) / "home", monkeypatch)


def _furnished(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (place / "project").mkdir(parents=True)
    for kind in ("DATA", "CONFIG", "CACHE"):
        folder = place / f".local-{kind.lower()}/hhd"
        folder.mkdir(parents=True)
        (folder / "key").write_text(f"KEY-OF-{kind}")
        monkeypatch.setenv(f"HHD_{kind}_HOME", str(folder))
    (place / ".ssh").mkdir()
    (place / ".ssh/id_ed25519").write_text("KEY-OF-SSH")
    (place / ".netrc").write_text("KEY-OF-NETRC")
    (place / "mine").write_text("KEY-OF-MINE")
    monkeypatch.setenv("HOME", str(place))
    return place


@pytest.fixture
def walls(home: Path) -> Sandbox:
    found = detect(SandboxConfig(hide=(home / "mine",)))
    if found.program is None:
        pytest.skip(f"there is no sandbox here: {found.reason}")
    return found


@pytest.fixture
def cancel() -> Iterator[Cancel]:
    wish = Cancel()
    yield wish
    wish.close()


def bash(command: str, folder: Path, sandbox: Sandbox, **environment: str) -> Reply:
    variables = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment}
    with Workspace(folder, hidden=[]) as workspace:
        wish = Cancel()
        try:
            context = Context(workspace=workspace, sandbox=sandbox, environment=variables, cancel=wish)
            return BASH.act(BashInput(command=command), context)
        finally:
            wish.close()


def test_hhds_keys_and_other_secrets_are_not_there_inside_and_are_outside(home: Path, walls: Sandbox) -> None:
    secrets = ["DATA", "CONFIG", "CACHE", "SSH", "NETRC", "MINE"]
    search = f"grep -rhso 'KEY-OF-[A-Z]*' {home} | sort -u; cat {home}/.ssh/* {home}/mine 2>&1"
    assert [name for name in secrets if f"KEY-OF-{name}" in bash(search, home / "project", walls).output] == []
    assert [name for name in secrets if f"KEY-OF-{name}" not in bash(search, home / "project", OFF).output] == []
    bare = replace(walls, hidden=())
    assert [name for name in secrets if f"KEY-OF-{name}" not in bash(search, home / "project", bare).output] == []


def test_they_are_hidden_even_where_the_workspace_is_the_home_folder_itself(home: Path, walls: Sandbox) -> None:
    reply = bash("grep -rhso 'KEY-OF-[A-Z]*' . | sort -u; ls -d project; touch made", home, walls)
    assert reply.output == "project\n" and (home / "made").exists()


def test_a_workspace_within_hhds_own_folder_is_seen_and_its_neighbours_are_not(home: Path, walls: Sandbox) -> None:
    inner = paths.data_folder() / "worktrees/one"
    inner.mkdir(parents=True)
    (inner / "file").write_text("here")
    reply = bash("cat file; touch made; cat ../../key; ls ../..", inner, walls)
    assert reply.output.startswith("here") and "KEY-OF" not in reply.output and (inner / "made").exists()
    assert "KEY-OF-DATA" in bash("cat ../../key", inner, OFF).output


def test_only_the_workspace_is_writable(home: Path, walls: Sandbox) -> None:
    names = [home / "no", home / ".ssh-no", *map(Path, ("/usr/hhd-test-no", "/etc/hhd-test-no", "/tmp/hhd-test-no"))]
    command = "touch ok; for f in " + " ".join(map(str, names)) + "; do touch $f; done 2>/dev/null; true"
    bash(command, home / "project", walls)
    assert (home / "project/ok").exists() and not any(name.exists() for name in names)
    bash(f"touch {home}/no", home / "project", OFF)
    assert (home / "no").exists(), "control"


def test_a_hidden_place_cannot_be_uncovered_from_inside(home: Path, walls: Sandbox) -> None:
    key = home / ".local-data/hhd"
    command = f"umount {key}; umount -l {key}; unshare -rm umount {key}; mount --bind / /mnt; cat {key}/key; true"
    assert "KEY-OF" not in bash(f"({command}) 2>/dev/null", home / "project", walls).output
    assert bash("grep CapEff /proc/self/status", home / "project", walls).output.split()[1].strip("0") == ""


def test_sockets_of_hhd_and_of_agents_cannot_be_reached_and_can_be_outside(home: Path, walls: Sandbox) -> None:
    place = paths.data_folder() / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(place.parent)
        listener.bind("s")
        os.chdir(here)
        listener.listen(1)
        connect = "import socket; socket.socket(socket.AF_UNIX).connect('s'); print('reached')"
        command = f'cd {place.parent} 2>/dev/null && python3 -c "{connect}"'
        assert "reached" not in bash(command, home / "project", walls).output
        assert "reached" in bash(command, home / "project", OFF).output


def test_no_other_process_can_be_seen_or_signalled(home: Path, walls: Sandbox) -> None:
    pid = os.getpid()
    command = (
        f"ls /proc | grep -c '^[0-9]' ; kill -0 {pid} && echo seen; cat /proc/*/environ | tr '\\0' '\\n' | grep CANARY"
    )
    os.environ["CANARY_KEY"] = "CANARY"
    try:
        other = subprocess.Popen(["sleep", "100"])
        inside = bash(command, home / "project", walls).output
        outside = bash(command, home / "project", OFF).output
    finally:
        other.kill()
        other.wait()
        del os.environ["CANARY_KEY"]
    assert int(inside.split()[0]) < 10 and "CANARY" not in inside
    assert "seen" in outside and "CANARY" in outside


def test_without_network_nothing_is_reached_and_with_it_loopback_is(home: Path, walls: Sandbox) -> None:
    closed = detect(SandboxConfig(network=False))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)
        command = f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]} && echo reached"
        assert "reached" not in bash(command, home / "project", closed).output
        assert "reached" in bash(command, home / "project", walls).output
    assert "No network." in closed.status() and "No network." not in walls.status()


def test_builds_have_a_cache_that_is_not_the_persons(home: Path, walls: Sandbox) -> None:
    (home / ".cache/tool").mkdir(parents=True)
    (home / ".cache/tool/mine").write_text("mine")
    bash("mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/made", home / "project", walls)
    assert bash("ls ~/.cache/tool", home / "project", walls).output == "made\n"
    assert os.listdir(home / ".cache/tool") == ["mine"]


def test_more_can_be_made_writable_by_configuration_only(home: Path) -> None:
    (home / "store").mkdir()
    more = detect(SandboxConfig(writable=(home / "store", home / "absent")))
    if more.program is None:
        pytest.skip(f"there is no sandbox here: {more.reason}")
    bash("touch ~/store/x", home / "project", more)
    bash("touch ~/store/y", home / "project", detect())
    assert os.listdir(home / "store") == ["x"]
    assert "~/store" in more.status()[0]


def test_everything_inside_dies_with_hhd(home: Path, walls: Sandbox) -> None:
    mark = f"hhd-mark-{os.getpid()}-{os.urandom(4).hex()}"
    child = os.fork()
    if child == 0:
        bash(f"export MARK={mark}; setsid sleep 1000 & touch begun; sleep 1000", home / "project", walls)
        os._exit(0)
    _until(lambda: (home / "project/begun").exists())
    assert _marked(mark), "control: it runs"
    os.kill(child, 9)
    os.waitpid(child, 0)
    _until(lambda: not _marked(mark))


def test_without_walls_everything_dies_with_hhd_too(home: Path) -> None:
    mark = f"hhd-mark-{os.getpid()}-{os.urandom(4).hex()}"
    child = os.fork()
    if child == 0:
        bash(f"export MARK={mark}; setsid sleep 1000 & touch begun; sleep 1000", home / "project", OFF)
        os._exit(0)
    _until(lambda: (home / "project/begun").exists())
    assert _marked(mark), "control: it runs"
    os.kill(child, 9)
    os.waitpid(child, 0)
    _until(lambda: not _marked(mark))


def test_the_status_says_what_stands_and_why_not(home: Path, walls: Sandbox, tmp_path: Path) -> None:
    on = " ".join(walls.status())
    assert "in a sandbox" in on and "~/.ssh" in on and "~/.local-data/hhd" in on and "~/mine" in on
    assert "~/.gnupg" not in on, "what does not exist is not boasted of"
    missing = detect(search=str(tmp_path))
    assert missing.program is None and "not installed" in missing.status()[0]
    off = detect(SandboxConfig(use="off"))
    assert off.program is None and "switched off" in off.status()[0] and "reach the network" in off.status()[1]
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    found = detect(search=str(tmp_path))
    assert found.program is None and "No permissions to create new namespace" in found.status()[0]
    lying = detect(SandboxConfig(use="require"), search=str(tmp_path))
    assert lying.required and lying.program is None


@pytest.mark.parametrize(
    "table",
    [
        {"use": "maybe"},
        {"network": "yes"},
        {"hide": "x"},
        {"hide": ["x"]},
        {"writable": [1]},
        {"git": True},
        {"usee": "off"},
    ],
)
def test_a_setting_without_meaning_is_refused_by_name(table: dict[str, object]) -> None:
    with pytest.raises(RefusedError, match=next(iter(table))):
        SandboxConfig.from_table(table)


def test_a_place_of_keys_can_be_shown_by_configuration_but_not_hhds_own(home: Path, walls: Sandbox) -> None:
    shown = detect(SandboxConfig(show=(home / ".ssh", paths.data_folder())))
    command = f"cat {home}/.ssh/id_ed25519 {home}/.netrc {home}/.local-data/hhd/key 2>/dev/null"
    assert bash(command, home / "project", shown).output.startswith("KEY-OF-SSH")
    assert "KEY-OF-DATA" not in bash(command, home / "project", shown).output
    assert "KEY-OF-NETRC" not in bash(command, home / "project", shown).output


def test_settings_are_read(home: Path) -> None:
    table = {"use": "require", "network": False, "git": "writable", "hide": ["~/x"], "writable": ["/y"]}
    assert SandboxConfig.from_table(table) == SandboxConfig(
        use="require", network=False, git="writable", hide=(home / "x",), writable=(Path("/y"),)
    )


def _until(true: object) -> None:
    assert callable(true)
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline, "it does not become true"
        time.sleep(0.02)


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
