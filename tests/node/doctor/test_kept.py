"""Looks at what hhd keeps: each says so when it is broken, and that all is well beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hhd.base import config
from hhd.base.paths import data_folder, private_folder
from hhd.node import logs, store
from hhd.node.doctor import kept
from hhd.node.doctor.finding import State
from hhd.node.this_device import identity_folder, store_folder


@pytest.fixture
def begun() -> Path:
    """A device that has a key and a store."""
    with store.opened():
        return data_folder()


def configure(text: str, mode: int = 0o600) -> Path:
    file = config.path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_configuration_that_cannot_be_read_or_that_others_can_change() -> None:
    assert kept.configuration().state is State.OK
    configure("[store]\nkeep_days = 3\n")
    assert kept.configuration().state is State.OK
    configure("[store]\nkeep_day = 3\n")
    found = kept.configuration()
    assert found.state is State.BROKEN and "keep_day" in found.says and "hhd config --example" in found.fix
    configure("", mode=0o666)
    assert kept.configuration().state is State.WARN


def test_a_key_that_is_gone_open_to_others_or_damaged(begun: Path) -> None:
    assert kept.key().state is State.OK and "only you read" in kept.key().says
    file = identity_folder() / "device.key"
    file.chmod(0o644)
    found = kept.key()
    assert found.state is State.BROKEN and "chmod 600" in found.says
    file.chmod(0o600)
    raw = file.read_bytes()
    file.write_bytes(b"nonsense")
    assert kept.key().state is State.BROKEN
    file.unlink()
    found = kept.key()
    assert found.state is State.BROKEN and "backup" in found.fix
    file.write_bytes(raw)
    file.chmod(0o600)
    assert kept.key().state is State.OK


def test_before_the_first_session_nothing_is_made_by_looking() -> None:
    looks = (kept.key, kept.health_of_store, kept.log_of_daemon, kept.clock, kept.disk)
    assert {look().state for look in looks} == {State.OK}
    assert not data_folder().exists()


def test_a_store_that_does_not_open(begun: Path) -> None:
    assert kept.health_of_store().state is State.OK
    database = store_folder() / "store.db"
    database = database if database.exists() else next(one for one in store_folder().iterdir() if one.suffix == ".db")
    database.write_bytes(b"this is no database" * 100)
    found = kept.health_of_store()
    assert found.state is State.BROKEN and "hhd check" in found.fix


def test_a_store_of_a_newer_hhd(begun: Path) -> None:
    note = store_folder() / "format"
    note.write_text(note.read_text().replace("hhd-store 1", "hhd-store 99"))
    assert kept.health_of_store().state is State.BROKEN


def test_a_log_that_others_read_or_that_is_no_file() -> None:
    folder = private_folder(logs.log_folder())
    (folder / "daemon.jsonl").touch(0o600)
    assert kept.log_of_daemon().state is State.OK
    (folder / "daemon.jsonl").chmod(0o644)
    assert kept.log_of_daemon().state is State.WARN and "chmod 600" in kept.log_of_daemon().fix
    (folder / "daemon.jsonl").unlink()
    (folder / "daemon.jsonl").mkdir()
    assert kept.log_of_daemon().state is State.BROKEN


def test_a_clock_that_was_put_back(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.clock().state is State.OK or time.time() < kept._RELEASED
    for file in store_folder().iterdir():
        os.utime(file, (time.time() + 4000, time.time() + 4000))
    found = kept.clock()
    assert found.state is State.WARN and "put back" in found.says
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: 1_000_000_000.0)
        assert "before the day" in kept.clock().says


def test_little_room_is_said_and_too_little_is_broken(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.disk().state is State.OK
    configure(f"[store]\nfree_bytes_min = {2**60}\n")
    found = kept.disk()
    assert found.state is State.BROKEN and "hhd gc" in found.fix
    configure("")
    monkeypatch.setattr(kept, "DISK_FREE_BYTES_LOW", 2**62)
    assert kept.disk().state is State.WARN
    monkeypatch.setattr(kept, "INODES_LOW", 2**62)
    if os.statvfs(begun).f_files:
        assert "files more" in kept.disk().says


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
@pytest.mark.parametrize(
    ("options", "says"), [("ro", "Read-only file system"), ("size=16k", "No space left on device")]
)
def test_a_read_only_home_and_a_full_disk_are_broken_with_a_way_out(options: str, says: str, begun: Path) -> None:
    """In a mount namespace of its own, by the command, whose exit status says it too."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    fill = f"dd if=/dev/zero of={begun}/fill bs=4k 2>/dev/null;" if options != "ro" else ""
    script = f"mount -t tmpfs -o {options} none {begun} && {{ {fill} {sys.executable} -m hhd doctor --json; }}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 3 and says in done.stdout and "Traceback" not in done.stderr, done.stderr
