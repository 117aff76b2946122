"""A session that is refused since no other device has answered goes on by itself once one has, unless it is paused."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from tests.node.handoff.handing import until

from hhd.app import sessions as app
from hhd.node import listing, should_run
from hhd.node.forks import Worker
from hhd.node.going import Going
from hhd.node.handoff import held_back
from hhd.node.lanes import Lanes
from hhd.node.pair import FromWorker, Opened, Over, Pause, Start, Stepped
from hhd.node.run_verbs import RunVerbs
from hhd.node.workbench import opened as workbench
from hhd.node.workers import Workers
from hhd.node.workers import resting as words
from hhd.store.errors import BusyError
from hhd.store.store import Store
from hhd_protocol.ids import SessionId

ALONE = Over(end="alone", status=3, effect="", sentence="Nobody has answered.", ways=())
INTERRUPTED = Over(end="interrupted", status=0, effect="", sentence="Paused.", ways=())


class Process:
    """Stands in for the process of a session: it opens at once, and ends as a test says."""

    def __init__(self) -> None:
        self.process, self.status = os.getpid(), None
        self.on_message: Callable[[FromWorker], None] = lambda _: None
        self.on_end: Callable[[], None] = lambda: None

    def say(self, message: Any) -> None:
        if isinstance(message, Pause):
            asyncio.get_running_loop().call_soon(lambda: self.ends(INTERRUPTED))
        if isinstance(message, Start):
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self.on_message(Opened(folder="/f", program="agent")))

    def kill(self) -> None:
        self.on_end()

    def ends(self, over: Over = ALONE) -> None:
        self.on_message(over)
        self.on_end()


def noted() -> list[SessionId]:
    with app.control_here() as control:
        return [one.session for one in should_run.noted(control.store)]


def tried(go: Callable[[Workers, SessionId, list[Process]], Coroutine[Any, Any, None]], tmp_path: Any) -> None:
    """Do `go` with a session that has begun, and the processes that were begun for it."""
    with workbench() as bench:
        session = bench.create("go", folder=tmp_path, once=False)

    async def live() -> None:
        lanes, made = Lanes(), list[Process]()
        workers = Workers(opened=app.control_here, lanes=lanes)

        async def fork(*, with_model: bool) -> Worker:
            made.append(Process())
            return cast(Worker, made[-1])

        workers._forks.fork = fork  # type: ignore[method-assign]
        workers._watching.look = lambda _: None  # type: ignore[method-assign]
        running = asyncio.create_task(workers.run())
        await workers.noted.wait()
        assert await workers.start(session) and len(made) == 1 and noted() == [session]
        try:
            await go(workers, session, made)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            lanes.close()

    asyncio.run(asyncio.wait_for(live(), 60))


async def alone(workers: Workers, session: SessionId, process: Process) -> None:
    process.ends()
    going = workers.going(session)
    await until(lambda: going.worker is None)
    assert going.state is not None and going.state.name == "waiting" and "by itself" in going.state.sentence
    assert noted() == [session], "it should run still"


def test_of_a_step_with_an_intent_is_told_before_and_of_another_one_as_ever(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        told: list[str] = []
        workers.on_step.append(lambda one: told.append("step") if one == session else None)
        workers.on_intent.append(lambda one: told.append("intent") if one == session else None)
        made[0].on_message(Stepped())
        assert told == ["step"]
        made[0].on_message(Stepped(intent=True))
        assert told == ["step", "intent", "step"]

    tried(go, tmp_path)


def test_it_goes_on_when_another_device_answers_and_each_time_anew(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        for count in range(1, 6):  # More often than a session is begun that makes no step.
            await alone(workers, session, made[-1])
            with app.control_here() as control:
                entry = listing.get(control.store, session)
                assert entry is not None and entry.waiting == words.ALONE
            workers.others_answered()
            await until(lambda count=count: len(made) == count + 1)  # type: ignore[misc]
            await until(lambda: session in workers.at_work)

    tried(go, tmp_path)


def test_an_answer_that_came_before_it_rested_is_not_lost(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        workers.others_answered()
        made[0].ends()
        await until(lambda: len(made) == 2)

    tried(go, tmp_path)


def test_an_answer_that_comes_while_it_is_written_down_that_it_waits_is_not_lost(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        wait, lives = workers._lives.wait, workers._lives

        async def answered(going: Going, why: str = words.ALONE) -> None:
            workers.others_answered()
            await wait(going, why)

        lives.wait = answered  # type: ignore[method-assign]
        made[0].ends()
        await until(lambda: len(made) == 2, 20)

    tried(go, tmp_path)


def test_one_who_comes_to_it_lets_it_go_on(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        await alone(workers, session, made[0])
        events = RunVerbs(workers).attach(session.hex())
        await anext(events)
        await until(lambda: len(made) == 2)
        await events.aclose()  # type: ignore[attr-defined]

    tried(go, tmp_path)


def test_a_person_who_pauses_it_ends_the_wait_and_other_ends_are_no_wait(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        await alone(workers, session, made[0])
        assert await RunVerbs(workers).at_work() == (session.hex(),)
        rested = await RunVerbs(workers).pause_here(session)
        assert rested.state == "paused" and noted() == []
        assert await RunVerbs(workers).at_work() == ()
        workers.others_answered()
        assert await workers.start(session) and len(made) == 2
        made[1].ends(Over(end="failed", status=3, effect="", sentence="No.", ways=()))
        await until(lambda: workers.going(session).worker is None)
        workers.others_answered()
        await asyncio.sleep(0)
        assert noted() == [] and len(made) == 2 and not workers._lives.alone

    tried(go, tmp_path)


def test_a_person_who_pauses_it_while_it_is_about_to_go_on_has_it_paused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, seen = threading.Event(), threading.Event()
    not_held = held_back.not_held

    def slow(store: Store) -> list[should_run.Note]:
        found = not_held(store)
        looking.set()
        assert seen.wait(240)
        return found

    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        await alone(workers, session, made[0])
        monkeypatch.setattr(held_back, "not_held", slow)
        workers.others_answered()
        await until(looking.is_set)
        pausing = asyncio.ensure_future(RunVerbs(workers).pause_here(session))
        await asyncio.wait([pausing], timeout=0.05)
        seen.set()
        assert (await pausing).state == "paused"
        for _ in range(5):  # What was begun before that has its turns, too.
            await workers.store.look(lambda _: None)
            await workers.store.change(lambda _: None)
        assert noted() == [] and workers.going(session).worker is None and not workers._lives.alone

    tried(go, tmp_path)


def test_a_person_who_pauses_it_while_it_is_written_down_that_it_waits_has_it_paused(tmp_path: Any) -> None:
    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        wait, lives = workers._lives.wait, workers._lives
        pausing = list[asyncio.Future[Any]]()

        async def paused(going: Going, why: str = words.ALONE) -> None:
            pausing.append(asyncio.ensure_future(RunVerbs(workers).pause_here(session)))
            await asyncio.wait(pausing, timeout=0.05)
            await wait(going, why)

        lives.wait = paused  # type: ignore[method-assign]
        made[0].ends()
        await until(lambda: bool(pausing))
        assert (await pausing[0]).state == "paused"
        assert noted() == [] and not lives.alone and len(made) == 1

    tried(go, tmp_path)


@pytest.mark.parametrize("what", ["its note is read", "it is noted", "its process is begun"])
def test_where_the_store_is_busy_as_it_would_go_on_it_goes_on_at_the_next_answer(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    failed = list[str]()

    def fails(*_: object, **__: object) -> Any:
        failed.append(what)
        raise BusyError("Another process writes to the store.")

    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        await alone(workers, session, made[0])
        owner, name = {
            "its note is read": (held_back, "not_held"),
            "it is noted": (should_run, "note"),
            "its process is begun": (workers._forks, "fork"),
        }[what]
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fails)
            workers.others_answered()
            await until(lambda: bool(failed) and not workers.going(session).turn.locked())
        assert len(made) == 1
        workers.others_answered()
        await until(lambda: len(made) == 2)
        assert noted() == [session]

    tried(go, tmp_path)
