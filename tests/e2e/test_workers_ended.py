"""Workers that hang, eat memory, or do not pause are ended; their sessions say so; no other one is touched."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, daemon, until
from tests.e2e.lab import ALLOW, call, needs_agent, repository, says, script, text

from hhd.base.errors import RefusedError, UsageError, UserError
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
    import hhd.node.worker
    from hhd.effects import scripted
    hhd.node.worker.BEAT_SECONDS = 0.1
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


@pytest.mark.long
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


@pytest.mark.long
def test_with_a_full_store_a_session_says_so_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    with daemon(tmp_path / "laptop") as laptop:
        file = laptop.device.home / "config" / "config.toml"
        counted = call("bash", command="echo 1 >> done")
        model = script(laptop.device.home / "s", [says(text("Yes?")), says(counted), says(text("Done."))])
        session = laptop.runs.begin("x", folder=repo, model=model).session
        one = laptop.attach(session)
        one.until(live.Listening)
        laptop.runs.pause(session)
        file.write_text(ALLOW + "[store]\nbytes_max = 4096\n")
        laptop.asking.connection.ask("reload", {})
        try:
            laptop.runs.say(session, "go")
        except UserError as error:  # It may not even begin.
            assert error.exit == 4
        ended = one.until(live.State, lambda state: state.name == "ended")
        assert ended.status == 4 and "store" in ended.sentence and not (repo / "done").exists()
        assert laptop.asking.connection.ask("status", {})
        file.write_text(ALLOW)
        laptop.asking.connection.ask("reload", {})
        laptop.runs.go_on(session, model=model)
        again = laptop.attach(session)
        if again.until(live.Listening).id:
            laptop.runs.say(session, "go on")
        again.until(live.Emitted, lambda said: b"Done." in said.piece)
        assert (repo / "done").read_text() == "1\n"


def test_what_a_dead_daemon_left_stops_no_session(tmp_path: Path) -> None:
    """Socket, lock file and workers of one that was killed; a lock of a session that nobody holds."""
    repo = repository(tmp_path / "repo")
    with daemon(tmp_path / "laptop") as laptop:
        model = script(laptop.device.home / "s", [says(text("Yes?")), says(text("Done."))])
        session = laptop.runs.begin("x", folder=repo, model=model).session
        laptop.attach(session).until(live.Listening)
        locks = [path for path in (laptop.data / "store" / "locks").iterdir()]
        laptop.kill()
        assert locks and (laptop.data / "daemon.lock").read_bytes()
        for path in locks:
            path.write_bytes(b"4711")
        laptop.up()
        assert laptop.runs.say(session, "go").how in ("answer", "prompt", "steering")
        laptop.attach(session).until(live.Emitted, lambda said: b"Done." in said.piece)


@pytest.mark.long
def test_words_that_no_session_could_hold_are_refused_and_the_daemon_goes_on(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop") as laptop:
        repo = repository(tmp_path / "repo")
        for prompt in ("x" * 3_000_000, "\udc80", "\0"):
            with pytest.raises(UserError) as raised:
                session = laptop.runs.begin(prompt, folder=repo, model="scripted:none").session
                laptop.attach(session).state("waiting")
                raise RefusedError("it took it")
            assert "fault of hhd" not in str(raised.value)
        with pytest.raises(UsageError):
            laptop.runs.say("x", "")
        with pytest.raises(UserError):
            laptop.runs.begin("x", folder=repo / "doubles.py", model="scripted:none")
        assert laptop.asking.connection.ask("status", {})


@pytest.mark.long
def test_of_many_sessions_at_once_all_get_on_and_the_daemon_answers(tmp_path: Path) -> None:
    with daemon(tmp_path / "laptop") as laptop:
        repo = repository(tmp_path / "repo")
        steps = [says(text(f"Step {n}."), call("read", path="doubles.py")) for n in range(6)]
        model = script(laptop.device.home / "s", [*steps, says(text("Done."))])
        sessions = [laptop.runs.begin("work", folder=repo, model=model).session for _ in range(30)]
        attached = [laptop.attach(session, position=None) for session in sessions]
        for one in attached:
            one.until(live.Listening)
            assert laptop.asking.connection.ask("status", {})
            one.close()
