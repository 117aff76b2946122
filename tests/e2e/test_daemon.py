"""The daemon as a process: started, asked, killed and ended; what is left over stops nobody."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.told import HHD, Told

from hhd.base.locks import held, take
from hhd.node import this_device


def killed(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def gone(folder: Path) -> None:
    """Wait until no daemon holds the lock."""
    while held(folder / "daemon.lock"):
        os.sched_yield()


def test_up_status_down_say_what_is_and_doing_them_again_changes_nothing(data: Path) -> None:
    assert Told("status", "--json").json == {"running": False} and not data.exists()
    assert "No daemon runs here" in Told("down").out
    first = Told("up", "--json").json
    again = Told("up", "--json").json
    assert first["started"] and not again["started"] and first["process"] == again["process"]
    found = Told("status", "--json").json
    assert (found["running"], found["process"]) == (True, first["process"])
    assert os.stat(found["socket"]).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(found["socket"])).st_mode & 0o777 == 0o700
    assert "the daemon runs" in Told("status").out.lower()
    assert "has ended" in Told("down").out
    assert Told("status", "--json").json == {"running": False} and not os.path.exists(found["socket"])
    assert Told("ls").status == 0


def test_it_is_in_a_session_of_its_own_and_holds_nothing_of_who_started_it(data: Path, tmp_path: Path) -> None:
    started = Told("up", "--json", cwd=tmp_path).json
    place = Path(f"/proc/{started['process']}")
    if not place.exists():
        pytest.skip("needs /proc")
    assert os.getsid(started["process"]) == started["process"] != os.getsid(0)
    assert os.readlink(place / "cwd") == "/"
    assert {os.readlink(place / "fd" / str(number)) for number in range(3)} == {"/dev/null"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(data: Path, number: int) -> None:
    started = Told("up", "--json").json
    os.kill(started["process"], number)
    gone(data)
    assert not os.path.exists(started["socket"]) and (data / "daemon.lock").read_bytes() == b""


def test_killed_it_leaves_nothing_that_stops_a_command_or_the_next_daemon(data: Path) -> None:
    started = Told("up", "--json").json
    killed(started["process"])
    gone(data)
    assert os.path.exists(started["socket"]) and (data / "daemon.lock").read_bytes()  # Both were left over.
    assert Told("status", "--json").json == {"running": False}
    assert Told("show", "x").err == "hhd: There is no session 'x' here.\n"
    next_one = Told("up", "--json").json
    assert next_one["started"] and next_one["process"] != started["process"]
    assert Told("show", "x").err == "hhd: There is no session 'x' here.\n"


def test_a_daemon_whose_socket_was_removed_listens_there_anew_and_ends_in_order(data: Path) -> None:
    started = Told("up", "--json").json
    for _ in range(2):
        shutil.rmtree(data / "run")
        found = Told("status", "--json").json
        assert (found["running"], found.get("process")) == (True, started["process"])
        assert os.stat(found["socket"]).st_mode & 0o777 == 0o600
    assert Told("down", "--json").json == {"ended": True}
    assert not os.path.exists(started["socket"]) and not held(data / "daemon.lock")


def test_a_daemon_that_cannot_use_the_key_says_why_wherever_other_devices_are_needed(data: Path) -> None:
    this_device.identity()
    (data / "identity/device.key").chmod(0o644)
    assert Told("up").status == 0
    with ThreadPoolExecutor(2) as two:
        found = list(two.map(lambda words: Told(*words), (["peer", "list"], ["pair"])))
    for told in found:
        assert told.status == 3 and "device.key, then: hhd restart" in told.err and "older than" not in told.err, (
            told.err
        )
    (data / "identity/device.key").chmod(0o600)
    assert Told("restart").status == 0 and Told("peer", "list").status == 0


def test_where_the_lock_is_held_and_nobody_answers_each_command_says_so_and_the_way_out(data: Path) -> None:
    data.mkdir(parents=True)
    lock = take(data / "daemon.lock")
    assert lock is not None
    with lock, ThreadPoolExecutor(3) as many:
        lock.write(os.fsencode(data / "run/control.sock"))
        found = list(many.map(Told, ("status", "down", "up")))
    for told in found:
        assert told.status == 3 and f"(process {os.getpid()}) holds" in told.err, told.err
        assert f"end it (kill {os.getpid()}), and then run hhd up." in told.err and len(told.err.splitlines()) == 1
    assert "No daemon runs here" in Told("down").out  # Nobody holds it any more.


def test_of_many_that_start_one_at_once_all_find_the_same(data: Path) -> None:
    with ThreadPoolExecutor(3) as many:
        found = list(many.map(lambda _: Told("up", "--json").json, range(3)))
    assert len({one["process"] for one in found}) == 1
    assert [one["started"] for one in found].count(True) == 1


def test_a_second_one_in_the_foreground_says_that_one_runs(data: Path) -> None:
    assert Told("up").status == 0
    told = Told("daemon")
    assert told.status == 3 and told.err == "hhd: A daemon runs already; hhd status says more.\n"
    assert Told("status", "--json").json["running"]


def test_what_is_in_the_way_of_its_socket_is_said_and_left_alone(data: Path) -> None:
    (data / "run").mkdir(parents=True)
    (data / "run/control.sock").write_text("mine")
    told = Told("up")
    assert told.status == 3 and "is in the way of the daemon's socket" in told.err and len(told.err.splitlines()) == 1
    assert (data / "run/control.sock").read_text() == "mine"
    assert Told("status", "--json").json == {"running": False} and Told("show", "x").status == 3


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"/nowhere/at/all", b"relative", b"/", b"/etc/passwd", b"/" * 9000]
)
def test_a_lock_file_that_says_nonsense_stops_nobody(data: Path, content: bytes) -> None:
    data.mkdir(parents=True)
    (data / "daemon.lock").write_bytes(content)
    assert Told("show", "x").err == "hhd: There is no session 'x' here.\n"


def test_a_long_path_is_no_matter(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HHD_DATA_HOME", str(tmp_path / ("long" * 40)))
    assert Told("up").status == 0
    assert Told("status", "--json").json["running"] and Told("show", "x").status == 3
    assert Told("down", "--json").json == {"ended": True}


def test_a_home_that_cannot_be_written_is_one_sentence(data: Path) -> None:
    data.parent.mkdir(exist_ok=True)
    data.write_text("a file, and no folder")
    assert Told("status", "--json").json == {"running": False}
    for words in (["up"], ["daemon"]):
        told = Told(*words)
        assert told.status != 0 and len(told.err.splitlines()) == 1 and "Traceback" not in told.err
    data.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
@pytest.mark.parametrize("how", ["ro", "full"])
def test_a_read_only_home_and_a_full_disk_are_one_sentence(
    how: str, data: Path, unshared: Callable[[str], Told]
) -> None:
    """In a mount namespace of its own."""
    hhd = " ".join(HHD)
    if how == "ro":
        script = f"mount -t tmpfs -o ro none {data} && {hhd} up"
    else:
        fill = f"dd if=/dev/zero of={data}/fill bs=4k 2>/dev/null || true"
        script = f"mount -t tmpfs -o size=16k none {data} && {fill} ; {hhd} up"
    told = unshared(script)
    assert told.status in (1, 3, 4) and len(told.err.splitlines()) == 1, told.err
    assert ("Read-only file system" if how == "ro" else "No space left on device") in told.err


@pytest.fixture
def unshared(data: Path) -> Callable[[str], Told]:
    data.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")

    def run(script: str) -> Told:
        told = Told.__new__(Told)
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=240)
        told.status, told.out, told.err = done.returncode, done.stdout, done.stderr
        return told

    return run


def test_a_runtime_folder_is_only_for_the_usual_data_folder(data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Two data folders have two daemons, whatever the login says."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    one = Told("up", "--json").json
    monkeypatch.setenv("HHD_DATA_HOME", str(tmp_path / "other"))
    other = Told("up", "--json").json
    assert one["process"] != other["process"] and one["socket"] != other["socket"]
    assert Told("down", "--json").json == {"ended": True}
    monkeypatch.setenv("HHD_DATA_HOME", str(data))
    monkeypatch.delenv("XDG_RUNTIME_DIR")  # Another environment than the daemon's finds it all the same.
    assert Told("status", "--json").json["process"] == one["process"]
