"""Workers that hang, eat memory, or do not pause are ended; their sessions say so; no other one is touched."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, daemon, until
from tests.e2e.lab import ALLOW, call, needs_agent, repository, says, script, text

from hhd_protocol import live

pytestmark = [needs_agent, pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")]

QUICK = """
import hhd.node.workers as w, hhd.node.watching as g
w.Watching = lambda: g.Watching(memory_bytes_max=400 * 2**20, hangs_seconds=1)
w.PAUSE_SECONDS = 1
"""

FAULTS = """
import sys
if "hhd.node.zygote" in sys.orig_argv:
    import re
    from hhd.effects import scripted
    answer = scripted.Script.answer
    def faulty(self, request, *, position, watch):
        found = answer(self, request, position=position, watch=watch)
        if b"HANG" in found:
            re.match(r"(a+)+$", "a" * 60 + "b")
        if b"EAT" in found:
            eaten = []
            while True:
                eaten.append(bytearray(b"x" * 2**20))
        if b"STUBBORN" in found:
            import signal
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            signal.sigwait([signal.SIGUSR1])
        return found
    scripted.Script.answer = faulty
"""


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULTS)
    environ = {"PYTHONPATH": str(tmp_path / "faults")}
    with daemon(tmp_path / "laptop", config=ALLOW, before=QUICK, environ=environ) as one:
        yield one


def test_one_that_hangs_or_eats_memory_is_ended_and_says_so_and_another_goes_on(laptop: Daemon, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    honest = laptop.runs.begin(
        "be honest", folder=repo, model=script(laptop.device.home / "h", [says(text("Yes?")), says(text("Fine."))])
    )
    beside = laptop.attach(honest.session)
    beside.until(live.Listening)
    for fault, sentence in (("HANG", "hung for 1 seconds"), ("EAT", "more than 400 MiB")):
        model = script(laptop.device.home / fault, [says(call("bash", command="echo 1 >> done")), says(text(fault))])
        session = laptop.runs.begin(fault, folder=repo, model=model).session
        one = laptop.attach(session)
        ended = one.state("ended")
        assert sentence in ended.sentence and "Every step that was done is kept" in ended.sentence
        until(lambda: len(laptop.workers()) <= 1)
        assert laptop.attach(session).state("ended") == ended
        mended = script(laptop.device.home / "mended", [says(text("x")), says(text("Better."))])
        laptop.runs.go_on(session, model=mended)
        again = laptop.attach(session)
        again.until(live.Emitted, lambda said: b"Better." in said.piece)
    assert (repo / "done").read_text() == "1\n1\n"
    assert laptop.runs.say(honest.session, "go").how in ("answer", "prompt")
    beside.until(live.Emitted, lambda said: b"Fine." in said.piece)


def test_one_that_sleeps_or_is_stopped_is_not_taken_for_one_that_hangs_and_one_that_does_not_pause_is_ended(
    laptop: Daemon, tmp_path: Path
) -> None:
    repo = repository(tmp_path / "repo")
    model = script(laptop.device.home / "s", [says(text("STUBBORN"))])
    session = laptop.runs.begin("x", folder=repo, model=model).session
    one = laptop.attach(session)
    one.until(live.Words)
    (worker,) = laptop.workers()
    os.kill(worker, signal.SIGSTOP)
    until(lambda: " T " in Path(f"/proc/{worker}/stat").read_text())
    os.kill(worker, signal.SIGCONT)
    assert not one.of(live.State)[1:] or one.of(live.State)[-1].name == "running"
    rested = laptop.runs.pause(session)
    assert rested.state == "ended" and "did not pause within 1 seconds" in rested.sentence
    assert not laptop.workers()
