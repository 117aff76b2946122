"""What a session that waits for a model's reply has in memory for itself alone, as the system says it."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, until
from tests.e2e.lab import ALLOW, Device

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says it (/proc/PID/smaps_rollup)")

PRIVATE_BYTES_MAX = 20 * 2**20
"""Measured: 17.2 MB. With the client of the model made in each worker it was 22.5 MB."""


def _private(process: int) -> int:
    """Bytes of memory that only this process has."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def test_a_worker_that_waits_for_a_reply_has_little_memory_of_its_own(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(240)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = f'[model]\nbase_url = "{address}"\napi_key = "none"\nallow_plain_http = true\n' + ALLOW
        (repo := tmp_path / "repo").mkdir()
        daemon = Daemon(device=Device(home=tmp_path / "laptop", config=config)).up()
        try:
            daemon.runs.begin("work", folder=repo)
            daemon.runs.begin("work", folder=repo)  # Two: what they share is not counted as one's own.
            calls = [silent.accept()[0] for _ in range(2)]
            for call in calls:
                call.settimeout(240)
                assert call.recv(4) == b"POST"
            workers = daemon.workers()
            assert len(workers) == 2
            for worker in workers:
                until(lambda worker=worker: _private(worker) <= PRIVATE_BYTES_MAX)
            for call in calls:
                call.close()
        finally:
            daemon.down()


def test_memory_of_its_own_is_seen_as_such() -> None:
    size = PRIVATE_BYTES_MAX + 2**20
    told, tells = os.pipe()
    process = os.fork()
    if not process:
        own = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
        for at in range(0, size, mmap.PAGESIZE):
            own[at] = 1
        os.write(tells, b"r")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(told, 1) == b"r"
        assert _private(process) > PRIVATE_BYTES_MAX
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(told)
        os.close(tells)
