"""Sessions that run in the daemon: begun, heard by all who are attached, answered by one, paused, gone on with."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, daemon, until
from tests.e2e.lab import FIX, FIXED, call, needs_agent, repository, says, script, text

from hhd.base.errors import RefusedError, UsageError
from hhd.node.leftovers import children
from hhd_protocol import live

pytestmark = needs_agent


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, compiled_modules: Path) -> Iterator[Daemon]:
    """One daemon for tests that leave it as they found it; nobody is asked anything."""
    environ = {"HHD_CACHE_HOME": str(compiled_modules)}
    with daemon(tmp_path_factory.mktemp("shared") / "laptop", environ=environ) as one:
        yield one


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory, compiled_modules: Path) -> Iterator[Daemon]:
    """The same, of a person who is asked, and whose sessions do not wait long with a process."""
    environ = {"HHD_CACHE_HOME": str(compiled_modules)}
    home = tmp_path_factory.mktemp("careful") / "laptop"
    with daemon(home, config="", before="import hhd.node.workers as w; w.LINGER_SECONDS = 1.0", environ=environ) as one:
        yield one


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Daemon]:
    """One of its own, for a test that ends it."""
    with daemon(tmp_path / "laptop") as one:
        yield one


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_a_session_runs_in_a_process_of_its_own_and_who_attaches_hears_all_of_it(shared: Daemon, repo: Path) -> None:
    model = script(shared.device.home / "s.jsonl", [*FIX, says(text("Bye."))])
    begun = shared.runs.begin("fix it", folder=repo, model=model)
    first = shared.attach(begun.session)
    listening = first.until(live.Listening)
    assert (repo / "doubles.py").read_text() == FIXED
    assert b"It passes now." in first.transcript
    late = shared.attach(begun.session, position=5)
    assert late.until(live.Listening) == listening
    assert late.transcript == first.transcript[5:]
    place = first.place
    assert shared.runs.say(begun.session, "see you", by="pts/1").how == "answer"
    first.until(live.Settled, lambda one: (one.id, one.by, one.word) == (listening.id, "pts/1", "words"))
    first.until(live.Emitted, lambda one: b"Bye." in one.piece, since=place)
    late.until(live.Emitted, lambda one: b"Bye." in one.piece)
    assert late.transcript == first.transcript[5:]
    shown = json.loads(shared.device.hhd("show", begun.session, "--json", cwd=repo).stdout)
    assert shown["turns"] == 2


def once(number: int, more: str = "") -> dict[str, object]:
    """A call whose doing is counted: a line in `done`."""
    return call("bash", command=f"{more}echo {number} >> done")


def done(repo: Path) -> list[str]:
    return (repo / "done").read_text().split() if (repo / "done").exists() else []


SLOW = "echo slow >> begun; until [ -e go ]; do sleep 0.02; done; "
"""A command that runs until it may end."""


def begun(repo: Path) -> None:
    """Wait until that command wrote its line: the file is there a moment before."""
    until(lambda: (repo / "begun").exists() and (repo / "begun").read_text())


def test_a_question_goes_to_all_the_first_answer_counts_and_the_others_hear_of_it(careful: Daemon, repo: Path) -> None:
    model = script(careful.device.home / "s.jsonl", [says(once(1)), says(once(2)), says(text("Done."))])
    session = careful.runs.begin("do it", folder=repo, model=model).session
    one, other = careful.attach(session, by="one"), careful.attach(session, by="other")
    asked = one.until(live.Question)
    assert other.until(live.Question) == asked and "echo 1 >> done" in "".join(asked.pages)
    with pytest.raises(RefusedError, match="not the text"):
        careful.runs.answer(session, asked.id, shown=bytes(32), choice="yes")
    with pytest.raises(UsageError):
        careful.runs.answer(session, asked.id, shown=asked.shown, choice="sure")
    assert not careful.runs.answer(session, asked.id, shown=asked.shown, choice="later").counted
    assert not done(repo)
    first = careful.runs.answer(session, asked.id, shown=asked.shown, choice="yes", by="other")
    second = careful.runs.answer(session, asked.id, shown=asked.shown, choice="no", by="one")
    assert (first.counted, first.by, second.counted, second.by) == (True, "other", False, "other")
    one.until(live.Settled, lambda said: (said.id, said.by, said.word) == (asked.id, "other", "yes"))
    again = one.until(live.Question, lambda found: found.id != asked.id)
    assert done(repo) == ["1"]
    late = careful.runs.answer(session, asked.id, shown=asked.shown, choice="no", by="other")
    assert not late.counted, "the answer to an old question is none to the next one"
    careful.runs.answer(session, again.id, shown=again.shown, choice="no", message="not that", by="one")
    one.until(live.Emitted, lambda said: b"not that" in said.piece)
    one.until(live.Listening)
    assert done(repo) == ["1"]


@pytest.mark.long
def test_always_holds_while_the_session_runs_and_no_longer(careful: Daemon, repo: Path) -> None:
    same = once(1)
    model = script(careful.device.home / "s.jsonl", [says(same), says(same), says(text("Well?")), says(same)])
    session = careful.runs.begin("do it", folder=repo, model=model).session
    one = careful.attach(session)
    asked = one.until(live.Question)
    assert asked.always
    careful.runs.answer(session, asked.id, shown=asked.shown, choice="always")
    one.until(live.Listening)
    assert done(repo) == ["1", "1"]
    careful.runs.pause(session)
    assert careful.runs.say(session, "again").how == "prompt"
    one.until(live.Question, lambda found: found.id != asked.id)
    assert done(repo) == ["1", "1"]


def test_a_session_that_waits_long_has_no_process_and_words_and_an_answer_start_one(
    careful: Daemon, repo: Path
) -> None:
    model = script(careful.device.home / "s.jsonl", [says(once(1)), says(text("And?")), says(text("Bye."))])
    session = careful.runs.begin("do it", folder=repo, model=model).session
    one = careful.attach(session)
    assert one.state("waiting").status == 3
    until(lambda: not careful.workers())
    late = careful.attach(session)
    asked = late.until(live.Question)
    assert asked == one.of(live.Question)[-1] and late.state("waiting")
    place = one.place
    assert careful.runs.answer(session, asked.id, shown=asked.shown, choice="yes", by="late").counted
    assert one.until(live.State, lambda state: state.effect == "input", since=place).name == "waiting"
    assert done(repo) == ["1"]
    until(lambda: not careful.workers())
    heard = careful.runs.say(session, "bye")
    assert heard.how == "prompt"
    one.until(live.Emitted, lambda said: b"Bye." in said.piece, since=place)
    assert b'"bye"' in one.transcript


def test_a_question_is_asked_again_by_the_next_daemon_and_answered_there(tmp_path: Path, repo: Path) -> None:
    with daemon(tmp_path / "laptop", config="") as laptop:
        model = script(laptop.device.home / "s.jsonl", [says(once(1)), says(text("Done."))])
        session = laptop.runs.begin("do it", folder=repo, model=model).session
        asked = laptop.attach(session).until(live.Question)
        laptop.kill()
        laptop.up()
        again = laptop.attach(session)
        question = again.until(live.Question)
        assert (question.pages, question.shown) == (asked.pages, asked.shown)
        laptop.runs.answer(session, question.id, shown=question.shown, choice="yes")
        again.until(live.Listening)
        assert done(repo) == ["1"]


def test_a_pause_is_durable_and_going_on_goes_on(laptop: Daemon, repo: Path) -> None:
    model = script(
        laptop.device.home / "s.jsonl", [says(once(1)), says(once(2, SLOW)), says(once(3)), says(text("Done."))]
    )
    session = laptop.runs.begin("do it", folder=repo, model=model).session
    one = laptop.attach(session)
    begun(repo)
    assert laptop.runs.go_on(session).fresh is False
    rested = laptop.runs.pause(session)
    assert rested.state == "paused" and not laptop.workers()
    shown = json.loads(laptop.device.hhd("show", session, "--json", cwd=repo).stdout)
    assert shown["state"] == "paused" and done(repo) == ["1"]
    assert laptop.runs.pause(session).state == "paused"  # Again changes nothing.
    laptop.kill()
    laptop.up()
    assert laptop.attach(session).state("paused")  # Who paused it does not find it running.
    assert not laptop.workers()
    assert laptop.runs.go_on(session, model=model).fresh
    assert laptop.attach(session).until(live.Listening)
    assert done(repo) == ["1", "3"]  # The second was ended by the pause, and the session was told.
    assert one.state("paused")


@pytest.mark.parametrize("how", ["TERM", "KILL"])
def test_what_ran_when_the_daemon_ended_goes_on_when_it_starts_and_does_nothing_twice(
    how: str, laptop: Daemon, repo: Path
) -> None:
    slow = script(
        laptop.device.home / "slow.jsonl", [says(once(1)), says(once(2, SLOW)), says(once(3)), says(text("Done."))]
    )
    other = laptop.runs.begin(
        "wait here", folder=repo, model=script(laptop.device.home / "w.jsonl", [says(text("So?"))])
    )
    laptop.attach(other.session).until(live.Listening)
    session = laptop.runs.begin("do it", folder=repo, model=slow).session
    one = laptop.attach(session)
    begun(repo)
    assert len(laptop.workers()) >= 1
    laptop.kill(getattr(signal, f"SIG{how}"))
    if how == "TERM":
        one.until(live.Notice, lambda told: "goes on when the daemon starts" in told.text)
        assert not [state for state in one.of(live.State) if state.name == "paused"]
    (repo / "go").touch()
    laptop.up()
    again = laptop.attach(session)
    again.until(live.Listening)
    assert b"Done." in again.transcript
    assert done(repo) in (["1", "3"], ["1", "2", "3"])
    assert (repo / "begun").read_text() == "slow\n"
    assert laptop.attach(other.session).until(live.Listening)


def test_a_worker_that_is_killed_is_not_started_again_and_its_session_says_so(laptop: Daemon, repo: Path) -> None:
    model = script(laptop.device.home / "s.jsonl", [says(once(1)), says(once(2, SLOW)), says(text("Done."))])
    session = laptop.runs.begin("do it", folder=repo, model=model).session
    one = laptop.attach(session)
    begun(repo)
    (worker,) = laptop.workers()
    os.kill(worker, signal.SIGKILL)
    ended = one.state("ended")
    assert "SIGKILL" in ended.sentence and ended.status == 1
    until(lambda: not laptop.workers())
    shown = json.loads(laptop.device.hhd("show", session, "--json", cwd=repo).stdout)
    assert shown["state"] == "cut off" and "SIGKILL" in shown["waiting"]
    laptop.kill()
    laptop.up()
    assert laptop.attach(session).state("ended") and not laptop.workers()
    assert laptop.runs.go_on(session, model=model).fresh
    uncertain = laptop.attach(session).until(live.State, lambda state: state.name == "waiting")
    assert uncertain.status == 5 and (repo / "begun").read_text() == "slow\n"
    (repo / "go").touch()
    laptop.runs.go_on(session, settle=("did-not-run", ""), model=model)
    laptop.attach(session).until(live.Listening)
    assert done(repo) == ["1", "2"]


@pytest.mark.long
def test_what_a_command_left_running_ends_with_its_worker(tmp_path: Path, repo: Path) -> None:
    leave = "(setsid sh -c 'echo $$ > left; sleep 1000' &) ; until [ -s left ]; do sleep 0.01; done"
    with daemon(tmp_path / "laptop", config=UNWALLED) as laptop:
        model = script(laptop.device.home / "s.jsonl", [says(call("bash", command=leave)), says(text("Done."))])
        session = laptop.runs.begin("do it", folder=repo, model=model).session
        laptop.attach(session).until(live.Listening)
        left = int((repo / "left").read_text())
        if Path(f"/proc/{left}").exists():  # It is below its worker, not below the first process of the system.
            assert left in children(laptop.workers()[0])
        laptop.runs.pause(session)
        until(lambda: not Path(f"/proc/{left}").exists())


def test_what_a_command_started_ends_too_where_worker_and_watcher_of_the_command_are_killed_at_once(
    tmp_path: Path, repo: Path
) -> None:
    leave = "(setsid sh -c 'echo $$ > left; sleep 1000' &) ; sleep 1000"
    with daemon(tmp_path / "laptop", config=UNWALLED) as laptop:
        model = script(laptop.device.home / "s.jsonl", [says(call("bash", command=leave))])
        session = laptop.runs.begin("do it", folder=repo, model=model).session
        seat = laptop.attach(session)
        left = int(until(lambda: (repo / "left").exists() and (repo / "left").read_text()))
        assert Path(f"/proc/{left}").exists()
        for process in (*laptop.workers(), *(below for one in laptop.workers() for below in children(one))):
            os.kill(process, signal.SIGSTOP)  # None of them can do anything about the other.
            os.kill(process, signal.SIGKILL)
        seat.state("ended")
        until(lambda: not Path(f"/proc/{left}").exists())


def test_sessions_write_to_the_store_one_after_the_other_and_one_that_is_stopped_between_keeps_nobody_waiting(
    tmp_path: Path, repo: Path
) -> None:
    told = tmp_path / "told"
    tells = f"""
import hhd.node.lives as w
def tell(what, who):
    open({str(told)!r}, "a").write(f"{{what}} {{who.process}}\\n")
class Told(w.Turns):
    def _next(self):
        found = super()._next()
        for one in found if self._at_once == 1 else ():
            tell(type(one).__name__ + str(len(self._having)), one.who)
        return found
    def look(self):
        found = super().look()
        for one in found if self._at_once == 1 else ():
            if isinstance(one, w.Taken):
                tell("Taken", one.who)
        return found
    def gives(self, who):
        if self._at_once == 1:
            tell("Gives", who)
        return super().gives(who)
w.Turns = Told
"""
    with daemon(tmp_path / "laptop", config=UNWALLED, before=tells) as laptop:
        commands = ["until [ -e worker ]; do sleep 0.01; done", "kill -STOP $(cat worker)"]
        steps = [*(says(call("bash", command=one)) for one in commands), says(text("Done."))]
        model = script(laptop.device.home / "s.jsonl", steps)
        first = laptop.attach(laptop.runs.begin("do it", folder=repo, model=model).session)
        (worker,) = laptop.workers()
        (repo / "new").write_text(f"{worker}\n")
        (repo / "new").rename(repo / "worker")
        until(lambda: " T " in Path(f"/proc/{worker}/stat").read_text())
        model = script(laptop.device.home / "t.jsonl", [says(text("Done."))])
        second = laptop.attach(laptop.runs.begin("do it", folder=repo, model=model).session)
        second.until(live.Listening)
        other = next(one for one in laptop.workers() if one != worker)
        turns = [line.split() for line in told.read_text().splitlines()]
        assert {what for what, _ in turns} - {"Gives", "Taken"} <= {"Given1", "Asked1"}
        assert {int(process) for what, process in turns if what == "Given1"} == {worker, other}
        # It had the turn when it was stopped, but for a machine on which that takes as long as for it to rest.
        assert [what for what, process in turns if int(process) == worker][-1] in ("Taken", "Gives")
        os.kill(worker, signal.SIGCONT)
        first.until(live.Listening)


UNWALLED = '[policy]\nallow = ["bash", "write", "edit"]\n[policy.sandbox]\nuse = "off"\n'


def test_steering_is_heard_at_the_next_step_and_keys_are_seen_by_the_others(shared: Daemon, repo: Path) -> None:
    model = script(shared.device.home / "s.jsonl", [says(once(1, SLOW)), says(text("I hear."))])
    session = shared.runs.begin("do it", folder=repo, model=model).session
    one, other = shared.attach(session, by="one"), shared.attach(session, by="other")
    begun(repo)
    shared.runs.keys(session, "not th\x1b[31m\u202e", by="one")
    keys = other.until(live.Keys)
    assert keys.by == "one" and "\x1b" not in keys.line and "\u202e" not in keys.line and keys.line.startswith("not th")
    assert shared.runs.say(session, "not that file", by="one").how == "steering"
    assert other.until(live.Said) == live.Said(by="one", text="not that file")
    (repo / "go").touch()
    one.until(live.Emitted, lambda said: b"not that file" in said.piece)
    one.until(live.Listening)
    assert not one.of(live.Keys) and not one.of(live.Said)


@pytest.mark.long
def test_what_cannot_be_driven_is_refused_and_does_not_run_later(laptop: Daemon, repo: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot be used as a workspace"):
        laptop.runs.begin("do it", folder=tmp_path / "gone", model="scripted:demo.jsonl")
    model = script(laptop.device.home / "s.jsonl", [says(text("Done."))])
    session = laptop.runs.begin("do it", folder=repo, model=model).session
    laptop.attach(session).until(live.Listening)
    laptop.runs.pause(session)
    repo.rename(tmp_path / "moved")
    for _ in range(2):
        with pytest.raises(RefusedError, match="cannot be used as a workspace"):
            laptop.runs.go_on(session)
    laptop.kill()
    laptop.up()
    assert laptop.runs.go_on(session, folder=tmp_path / "moved", model=model).fresh
    for name in ("nothing", ""):
        with pytest.raises((RefusedError, UsageError)):
            laptop.runs.go_on(name)


def test_a_session_that_goes_on_is_listed_as_running_before_its_next_step(shared: Daemon, repo: Path) -> None:
    wait = call("bash", command="touch begun; until [ -e go ]; do sleep 0.05; done")
    again = call("bash", command="touch begun; until [ -e go ]; do sleep 0.05; done; echo again")
    model = script(shared.device.home / "s.jsonl", [says(wait), says(again), says(text("Done."))])
    session = shared.runs.begin("do it", folder=repo, model=model).session

    def state() -> str:
        told = shared.device.hhd("ls", session, "--json", cwd=repo).stdout
        return str(json.loads(told)["sessions"][0]["state"])

    until((repo / "begun").exists)
    shared.runs.pause(session)
    assert state() != "running"
    (repo / "begun").unlink()
    assert shared.runs.go_on(session, model=model).fresh
    assert state() == "running"
    until((repo / "begun").exists)
    (repo / "go").touch()
    shared.attach(session).until(live.Listening)
    assert state() != "running"


def test_who_is_attached_to_a_session_that_is_removed_hears_that_and_is_let_go(shared: Daemon, repo: Path) -> None:
    model = script(shared.device.home / "s.jsonl", [says(text("Done."))])
    gone = shared.runs.begin("do it", folder=repo, model=model).session
    kept = shared.runs.begin("do it", folder=repo, model=model).session
    one, other = shared.attach(gone), shared.attach(kept)
    for session, seat in ((gone, one), (kept, other)):
        seat.until(live.Listening)
        shared.runs.pause(session)
        seat.state("paused")
    place = one.place
    shared.device.hhd("rm", gone, "--yes", cwd=repo)
    assert one.state("ended", since=place).sentence == f"Session {gone[:12]} was removed from this device."
    until(lambda: one.over)
    assert one.ended is None and not other.over
    assert shared.runs.go_on(kept, model=model).fresh
    other.until(live.Listening, since=place)
    shared.runs.pause(kept)


def test_a_session_that_was_made_and_could_not_begin_is_named(tmp_path: Path, repo: Path) -> None:
    full = "import hhd.node.should_run as s; s.NOTES_MAX = 0"
    with daemon(tmp_path / "laptop", before=full) as laptop:
        with pytest.raises(
            RefusedError, match=r"Session .* was made, and has not begun\. Go on with: hhd resume"
        ) as caught:
            laptop.runs.begin("do it", folder=repo, model="scripted:demo.jsonl")
        assert laptop.runs.pause(str(caught.value).split()[-1]).state == "paused"


@pytest.mark.long
def test_one_that_does_not_read_loses_only_what_is_of_its_moment(shared: Daemon, repo: Path) -> None:
    many = [says(text(f"{n} " + "word " * 4000), call("read", path="doubles.py")) for n in range(120)]
    model = script(shared.device.home / "s.jsonl", [*many, says(text("Done."))])
    session = shared.runs.begin("do it", folder=repo, model=model).session
    deaf = shared.runs.attach(session)
    assert isinstance(next(deaf), live.Attached)
    one = shared.attach(session)
    one.until(live.Listening)  # Nobody waited for the deaf one.
    whole, events = b"", []
    for event in deaf:
        events.append(event)
        if isinstance(event, live.Emitted):
            assert event.position == len(whole)
            whole += event.piece
        if isinstance(event, live.Listening):
            break
    assert whole == one.transcript and isinstance(events[-1], live.Listening)
