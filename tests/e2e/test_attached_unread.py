"""A thousand streams that nobody reads: the daemon's memory stays bounded, and who reads hears everything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.e2e.attached import daemon, until
from tests.e2e.lab import call, needs_agent, repository, says, script, text

from hhd.base.errors import RefusedError
from hhd_protocol import live

pytestmark = needs_agent

CONNECTIONS, STREAMS = 100, 10
WORDS = 60_000
TALK = [says(text("w" * WORDS), call("bash", command="true")) for _ in range(60)]
GROWN_BYTES_MAX = 128 * 1024 * 1024
"""Of 32, the most who are attached to one session, each may have 1 MiB written for it, half a MiB read from the store,
and a message at the end of each: 64 MiB, and some 10 for all that is said. With 4 MiB read ahead it was over 128."""


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_thousand_streams_that_nobody_reads_take_bounded_memory_from_a_daemon_that_serves_on(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop") as laptop:
        repo = repository(tmp_path / "repo")
        os.mkfifo(repo / "gate")
        gate = says(call("bash", command="touch begun; cat gate"))
        model = script(laptop.device.home / "s.jsonl", [gate, *TALK, says(text("All was said."))])
        session = laptop.runs.begin("go", folder=repo, model=model).session
        honest = laptop.attach(session)
        until((repo / "begun").exists)
        before = resident_bytes(laptop.process.pid)
        links = [laptop.link() for _ in range(CONNECTIONS)]
        for _ in range(STREAMS):
            for link in links:
                link._send("attach", {"name": session, "position": 0, "by": ""})
        (repo / "gate").write_text("go\n")
        honest.until(live.Listening)
        assert b"All was said." in honest.transcript and honest.transcript.count(b"w" * WORDS) == len(TALK)
        assert resident_bytes(laptop.process.pid) < before + GROWN_BYTES_MAX
        assert laptop.asking.connection.ask("status", {}, changes=False)
        with pytest.raises(RefusedError, match="32 terminals are attached"):  # They are there, indeed.
            laptop.attach(session)
        for link in links:
            link.close()

        def comes() -> bool:
            try:
                laptop.attach(session)
            except RefusedError:
                return False
            return True

        until(comes)
