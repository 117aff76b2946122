"""A session whose process cannot go on since the store is busy stays one that should run, and is tried again."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from tests.node.handoff.handing import until
from tests.node.test_lives_alone import Process, noted, tried

from hhd.app import sessions as app
from hhd.base.errors import RefusedError
from hhd.node import lives, pair, should_run, workers
from hhd.node.handoff import held_back
from hhd.node.pair import Over, Start, Stepped
from hhd.node.run_verbs import RunVerbs
from hhd.node.should_run import Note
from hhd.node.workers import Workers
from hhd.node.workers import resting as words
from hhd.store.errors import BusyError
from hhd.store.store import Store
from hhd_protocol.ids import SessionId

BUSY = Over(end="busy", status=3, effect="", sentence="Another process is writing to the store.", ways=())
FAILED = Over(end="failed", status=3, effect="", sentence="No.", ways=())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (lives, workers):
        monkeypatch.setattr(where, "AGAIN_SECONDS", 0.01)


def rested(workers: Workers, session: SessionId) -> bool:
    return workers.going(session).worker is None and not workers.going(session).turn.locked()


def refuses(over: Over, answers: list[Any]) -> Any:
    """What a process says that hears `Start` and cannot open its session."""

    def say(self: Process, message: Any) -> None:
        if isinstance(message, Start):
            answers.append(message.answers)
            asyncio.get_running_loop().call_soon(lambda: self.ends(over))

    return say


def test_one_that_was_at_work_is_tried_again_and_one_that_failed_is_not(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        made[0].ends(BUSY)
        await until(lambda: len(made) == 2 and session in workers.at_work)
        assert noted() == [session]
        made[1].ends(FAILED)
        await until(lambda: rested(workers, session))
        assert noted() == [] and len(made) == 2

    tried(go, tmp_path)


def test_one_that_could_not_open_its_session_is_tried_again_where_nobody_was_told_that_it_did_not_begin(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        answers = list[Any]()
        going = workers.going(session)
        with monkeypatch.context() as patched:
            patched.setattr(Process, "say", refuses(BUSY, answers))
            going.answer = answer = pair.Answer(id="1.x", shown=bytes(32), choice="yes", message="")
            made[0].ends(Over(end="waiting", status=3, effect="bash", sentence="It waits.", ways=()))
            await until(lambda: len(answers) >= 3)
            await until(lambda: going.worker is None and going.state is not None and going.state.name == "waiting")
            assert going.state is not None and going.state.sentence == words.BUSY
            assert noted() == [session]
            assert set(answers) == {(answer,)}, "an answer that nobody heard goes along each time"
        await until(lambda: session in workers.at_work)
        made[-1].on_message(Stepped())
        assert going.answer is None and going.carried is None
        with monkeypatch.context() as patched:
            assert (await RunVerbs(workers).pause_here(session)).state == "paused" and noted() == []
            patched.setattr(Process, "say", refuses(BUSY, answers))
            begun = len(made)
            with pytest.raises(RefusedError, match="writing"):
                await workers.start(session)
            assert noted() == [] and len(made) == begun + 1, "a person was told that it does not run"
            await asyncio.sleep(0)
            assert session not in workers._lives.alone

    tried(go, tmp_path)


def test_a_person_pauses_one_that_is_to_be_tried_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        monkeypatch.setattr(lives, "AGAIN_SECONDS", 60)
        made[0].ends(BUSY)
        await until(lambda: rested(workers, session))
        assert noted() == [session]
        assert (await RunVerbs(workers).pause_here(session)).state == "paused" and noted() == []
        workers.attended(session)
        assert len(made) == 1

    tried(go, tmp_path)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("the notes are read", BusyError("Another one writes.")),
        ("the notes are read", OSError(errno.EMFILE, "Too many open files")),
        ("it is noted", BusyError("Another one writes.")),
        ("its process is begun", OSError("no more processes")),
    ],
)
def test_what_ran_before_a_daemon_began_goes_on_once_it_can(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, what: str, error: Exception
) -> None:
    busy, failed = [True], list[str]()
    not_held, note = held_back.not_held, should_run.note

    def hinder(now: str) -> None:
        if busy and now == what:
            failed.append(now)
            raise error

    def read(store: Store) -> list[Note]:
        hinder("the notes are read")
        return not_held(store)

    def write(store: Store, one: Note) -> None:
        hinder("it is noted")
        note(store, one)

    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        made[0].ends(FAILED)
        await until(lambda: rested(workers, session))
        assert noted() == []
        with app.control_here() as control:
            should_run.note(control.store, Note(session, tmp_path, None))
        fork = workers._forks.fork

        async def forked(*, with_model: bool) -> Any:
            hinder("its process is begun")
            return await fork(with_model=with_model)

        monkeypatch.setattr(held_back, "not_held", read)
        monkeypatch.setattr(should_run, "note", write)
        workers._forks.fork = forked  # type: ignore[method-assign]
        going_on = asyncio.create_task(workers._go_on_with_noted())
        await until(lambda: len(failed) >= 2)
        assert noted() == [session] and len(made) == 1 and bool(workers.trouble) == (what == "the notes are read")
        busy.clear()
        await until(lambda: session in workers.at_work)
        await going_on
        assert noted() == [session] and len(made) == 2 and not workers.trouble
        with app.control_here() as control:
            assert [one.starts for one in should_run.noted(control.store)] == [1], "what did not begin counts not"

    tried(go, tmp_path)


def test_it_is_tried_again_once_however_often_it_was_tried_since(tmp_path: Any) -> None:
    """Else each answer of another device that comes while the store is busy would add one more try, for ever."""

    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        tries, past = list[SessionId](), asyncio.Event()
        workers._lives.again = tries.append
        for times in 1, 2:
            for _ in range(3):
                workers._lives.try_again(session)
            past.clear()
            asyncio.get_running_loop().call_later(2 * lives.AGAIN_SECONDS, past.set)
            await past.wait()
            assert tries == [session] * times

    tried(go, tmp_path)


def test_why_one_could_not_be_begun_is_a_sentence() -> None:
    said = words.hindered(OSError(errno.EAGAIN, "Resource temporarily unavailable"))
    assert said.endswith("by itself: The system said: Resource temporarily unavailable.") and "Errno" not in said
    assert words.hindered(BusyError("Another one writes.")) == words.BUSY
