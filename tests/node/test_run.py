"""Driving a session: what the guest is told beside a reply, what waits, and where the person is asked."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import FIX, call, needs_agent, says, text
from tests.node.driven import GLOB, Bench, Person

from hhd.base.errors import RefusedError, RolledBackError
from hhd.node import capsules
from hhd.node.capsule_file import CapsuleFile
from hhd.node.ended import End
from hhd.node.run import Run
from hhd_protocol.journal import Journal, State

pytestmark = needs_agent


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(folder=tmp_path, script=[GLOB, says(text("One.")), GLOB, says(text("Two.")), says(text("Three."))])


def count_machines(run: Run) -> list[int]:
    """Count the `machine` effects of `run` as they are answered."""
    asked: list[int] = []
    real = run._decorate

    def counting(reply: bytes) -> bytes:
        if b'"system"' in reply:
            asked.append(1)
        return real(reply)

    run._decorate = counting  # type: ignore[method-assign]
    return asked


def machines(bench: Bench, person: Person, repo: Path | None = None) -> int:
    with bench.run(person, repo) as run:
        asked = count_machines(run)
        run.go()
        return len(asked)


def test_a_session_that_stays_asks_for_the_machine_once_and_one_that_moves_asks_again(bench: Bench) -> None:
    assert machines(bench, Person()) == 1
    assert machines(bench, Person(words=["on"])) == 0, "the same folder, user, device and day"
    other = bench.folder / "elsewhere"
    other.mkdir()
    assert machines(bench, Person(words=["on"]), other) == 1


def test_another_day_is_noticed_also_while_it_runs(bench: Bench) -> None:
    person = Person()
    machines(bench, person)
    bench.today += datetime.timedelta(days=1)
    assert machines(bench, Person(words=["on"])) == 1
    (facts,) = [event["changed"] for event in bench.events("machine")][1:]
    assert facts == ["date"]


def test_what_the_person_says_meanwhile_goes_along_with_the_next_reply(bench: Bench) -> None:
    bench.go(Person(meanwhile=["use tabs"]))
    assert [event["text"] for event in bench.events("user") if event["from"] == "steering"] == ["use tabs"]


def test_a_session_of_a_stranger_asks_before_anything_and_no_is_no(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.go()
    monkeypatch.setenv("HHD_DATA_HOME", str(bench.folder / "bob"))
    before = bench.path.read_bytes()
    for answers in ([], ["q"], ["n", ""]):
        person = Person(answers=answers, words=["on"])
        with pytest.raises(RefusedError, match="nobody agreed"):
            bench.go(person)
        assert "This capsule was not made here by you" in person.screen and person.words == ["on"]
        assert bench.path.read_bytes() == before
    bench.go(Person(answers=["y"], words=["on"]))
    assert len(bench.events("user")) == 2
    assert bench.go(Person()).end is End.WAITING, "once agreed to, what is saved here is known here"


def test_each_state_is_on_disk_before_the_next_step(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started before the tool acts, answered before the guest runs on."""
    states: list[str] = []
    saved = CapsuleFile.save

    def save(self: CapsuleFile, value: Any) -> int:
        done = saved(self, value)
        live = value.journal.live
        states.append(f"{live.op} {live.state.name}" if live else "none")
        return done

    monkeypatch.setattr(CapsuleFile, "save", save)
    bench.script = [says(call("bash", command="true")), says(text("Done."))]
    with bench.run(Person()) as run:
        real = run._told
        run._told = lambda told: (states.append("the model speaks"), real(told))[1]  # type: ignore[method-assign,func-returns-value]
        run.go()
    assert states == [
        *("machine STARTED", "machine ANSWERED", "tool STARTED", "tool ANSWERED", "model STARTED", "model ANSWERED"),
        *("tool STARTED", "tool ANSWERED", "model STARTED", "the model speaks", "model ANSWERED", "input ASKED"),
    ]


def test_a_question_is_on_disk_before_it_is_put(bench: Bench) -> None:
    bench.rules = {}
    bench.script = [says(call("bash", command="true")), says(text("Done."))]
    seen: list[Journal] = []

    class Asked(Person):
        def read(self, prompt: str) -> str | None:
            seen.append(capsules.info(bench.path).capsule.journal)
            return None

    ended = bench.go(Asked())
    assert ended.effect == "tool" and ended.status == 3
    assert [(book.live.op, book.live.state) for book in seen if book.live] == [("tool", State.ASKED)]


def test_a_disk_that_is_full_when_a_tool_is_to_start_keeps_it_from_running(
    bench: Bench,
) -> None:
    bench.script = [says(call("bash", command="touch ran")), says(text("Done."))]
    saved = CapsuleFile.save

    def full(self: CapsuleFile, value: Any) -> int:
        live = value.journal.live
        if live and live.op == "tool" and b"touch ran" in live.request and live.state is State.STARTED:
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise RolledBackError("it could not be saved") from error
        return saved(self, value)

    with mock.patch.object(CapsuleFile, "save", full):
        with pytest.raises(RefusedError, match="No space left on device"):
            bench.go()
        assert not (bench.repo / "ran").exists()
    assert bench.go().status == 0 and (bench.repo / "ran").exists()


def test_the_way_through_a_script_is_the_sessions_own(bench: Bench) -> None:
    """Each process begins anew; the place follows from the journal."""
    bench.script = FIX
    (bench.repo / "doubles.py").write_text("def double(n):\n    return n + n + 1\n")
    bench.rules = {}
    for _ in range(3):
        bench.go(Person(answers=["y"]))
    assert [event["text"] for event in bench.events("text")] == ["Looking.", "One too many.", "It passes now."]
