"""A disk that is full under a session at work: a sentence says so, nothing is lost, and with room it goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon
from tests.e2e.lab import ALLOW, Device, call, needs_agent, repository, says, script, text

from hhd.control.client import Connection, connect
from hhd_protocol import live

pytestmark = [
    needs_agent,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system"),
]

COUNT = says(call("bash", command="echo x >> runs"))
SCRIPT = [COUNT, says(text("One.")), COUNT, says(text("Two."))]


@dataclass(kw_only=True)
class Mounted(Daemon):
    """A daemon in the mount namespace of a process, where the folder of its data is a file system of its own."""

    holder: int

    @property
    def data(self) -> Path:
        return Path(f"/proc/{self.holder}/root{self.device.environ['HHD_DATA_HOME']}")

    def link(self) -> Connection:
        socket = os.fsdecode((self.data / "daemon.lock").read_bytes())
        found = connect(Path(f"/proc/{self.holder}/root{socket}"), hhd="1")
        assert found is not None
        return found

    def _connected(self) -> Connection | None:
        assert self.process.poll() is None, self.log()
        lock = self.data / "daemon.lock"
        return self.link() if lock.exists() and lock.read_bytes() else None


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Mounted]:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces")
    data = tmp_path / "laptop/data"
    data.mkdir(parents=True)
    mount = f"mount -t tmpfs -o size=32m,mode=700 none {data} && echo ready && exec sleep infinity"
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", mount], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        enter = Device(home=tmp_path / "laptop").python
        python = ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", *enter)
        config = ALLOW + "[store]\nfree_bytes_min = 0\n"
        one = Mounted(device=Device(home=tmp_path / "laptop", config=config, python=python), holder=holder.pid)
        one.up()
        try:
            yield one
        finally:
            one.down()
    finally:
        holder.kill()
        holder.wait()


def fill(laptop: Mounted) -> Path:
    """Take all the room there is; removed, there is room again."""
    file = laptop.data / "fill"
    with open(file, "wb", buffering=0) as out:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    out.write(bytes(size))
            except OSError:
                continue
    return file


def test_a_session_at_work_on_a_disk_that_fills_up_says_so_and_goes_on_once_there_is_room(
    laptop: Mounted, tmp_path: Path
) -> None:
    repo = repository(tmp_path / "repo")
    model = script(laptop.device.home / "s.jsonl", SCRIPT)
    session = laptop.runs.begin("go", folder=repo, model=model).session
    attached = laptop.attach(session)
    attached.until(live.Listening)
    before, place = attached.transcript, attached.place
    assert b"One." in before and (repo / "runs").read_text() == "x\n"
    full = fill(laptop)
    laptop.runs.say(session, "go on")
    ended = attached.state("ended", since=place)
    assert "the disk is full" in ended.sentence and "Free some space, then go on." in ended.sentence
    assert "Traceback" not in laptop.log() and len(ended.sentence.splitlines()) == 1
    assert attached.transcript == before and (repo / "runs").read_text() == "x\n"
    said = laptop.device.hhd("status", cwd=tmp_path).stdout
    assert "0 MiB are left" in said
    full.unlink()
    place = attached.place
    laptop.runs.go_on(session, model=model)
    attached.until(live.Listening, since=place)
    words = attached.transcript[len(before) :]
    assert attached.transcript.startswith(before) and b"Two." in words
    assert words.count(b'"text":"go on"') == 1  # What was said when there was no room was not lost.
    assert (repo / "runs").read_text() == "x\nx\n"
    checked = laptop.device.hhd("check", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
