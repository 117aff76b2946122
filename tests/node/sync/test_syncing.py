"""The part of the daemon: what its store cannot do now is said, costs nothing else, and is done when it can be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.node.sync.linked import Idle, Peering, grouped, opened
from tests.node.sync.parts import part_of
from tests.node.sync.wired import Grown
from tests.store.conftest import Memory
from tests.transports.devices import device_named

from hhd.node import around, programs, sessions, should_run
from hhd.node.signing import Pen
from hhd.node.sync import engine as syncing_engine
from hhd.node.sync import pacing, syncing
from hhd.node.sync.out import Out
from hhd.node.sync.syncing import Syncing
from hhd.node.sync.ways import Way
from hhd.store.errors import BusyError, DamagedStoreError
from hhd.store.store import Store
from hhd.transports.link import Channel, Link
from hhd_protocol.bodies import IntentBody
from hhd_protocol.ids import CheckpointId, SessionId, Sha256, StatementId


def test_a_store_that_is_busy_is_said_and_what_was_missed_goes_over_later(tmp_path: Path) -> None:
    grouped(tmp_path, "laptop", "desktop")
    busy: set[str] = set()

    def part(name: str) -> tuple[Syncing, Peering, Idle]:
        def open_it() -> Store:
            if name in busy:
                raise BusyError("Another process is writing.")
            return opened(tmp_path, name)

        return part_of(tmp_path, name, opens=open_it)

    async def live() -> None:
        (laptop, near, workers), (desktop, far, others) = part("laptop"), part("desktop")
        parts = [asyncio.create_task(one.run()) for one in (laptop, desktop)]
        await laptop._ready.wait()
        await desktop._ready.wait()

        async def kept(link: Link) -> None:
            await far.keep(link)

        listener = await far.transport.listen(kept)
        port = listener.port  # type: ignore[attr-defined]
        dialled = await near.transport.dial("127.0.0.1", port, device_named("desktop").id)
        linked = asyncio.create_task(near.keep(dialled))
        target = device_named("desktop").id
        with opened(tmp_path, "laptop") as store:
            me = device_named("laptop")
            session = sessions.create(store, me, program="agent", args=programs.encode_args({"prompt": "go"}))
            work = Grown(store, me, session, Memory(10))
            work.step()
            await laptop.wait_synced(session, target)
            assert set(await laptop.acknowledged(session)) == {target}
            await laptop._rest()
            busy.add("laptop")
            made = work.step()
            for hear in workers.on_step:
                hear(session)
            while not laptop.trouble:
                await asyncio.sleep(0.01)
            assert "Another process is writing" in (await desktop.asked.sync_status()).trouble + laptop.trouble
            busy.clear()
            await laptop.wait_synced(session, target)
            assert laptop.trouble == "" and not any(one.done() for one in parts)
        with opened(tmp_path, "desktop") as there:
            assert made in there.checkpoint_ids(session)
            told: list[bytes] = []
            laptop.fenced.append(told.append)
            Grown(there, device_named("desktop"), session, Memory(0)).takes_over()
            for hear in others.on_step:
                hear(session)
            async with asyncio.timeout(240):
                while told != [session]:
                    await asyncio.sleep(0.01)
            while [flow.behind for flow in (await desktop.asked.sync_status()).flows] != [
                0
            ]:  # The laptop says so last.
                await asyncio.sleep(0.01)
        status = await desktop.asked.sync_status()
        assert status.flows[0].received > 1000
        for one in (linked, *parts):
            one.cancel()
        await asyncio.gather(linked, *parts, return_exceptions=True)
        await listener.close()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_a_session_that_was_removed_while_at_work_is_let_go_of_though_nobody_wrote_to_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped(tmp_path, "laptop")
    part, _, _ = part_of(tmp_path)
    asked = list[str]()

    def let_go() -> Out:
        asked.append("let go")
        part._engine._statements.at_work.clear()
        return Out()

    monkeypatch.setattr(part._engine, "let_go", let_go)
    monkeypatch.setattr(part._engine, "looked", lambda *_: asked.append("looked") or Out())

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        await part._look()
        assert "let go" not in asked, "there is nothing to let go of"
        asked.clear()
        part._engine._statements.at_work.add(SessionId(StatementId(bytes(32))))
        await part._look()
        assert asked == ["let go"], "the store is as it was"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_what_the_daemon_did_for_a_person_is_looked_for_at_once_and_not_with_the_next_look_at_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "LOOK_SECONDS", 3600.0)
    grouped(tmp_path, "laptop")
    part, _, _ = part_of(tmp_path)

    async def live() -> None:
        looked = asyncio.Event()
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        monkeypatch.setattr(part._engine, "looked", lambda *_: loop.call_soon_threadsafe(looked.set) and Out())
        loop = asyncio.get_running_loop()
        part._stir.set()
        await asyncio.sleep(0)
        await part._turn()
        assert not looked.is_set(), "it looks now and then"
        part.look_soon()
        await looked.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


async def tell_of_steps(part: Syncing, monkeypatch: pytest.MonkeyPatch, session: SessionId) -> None:
    """What another process says is heard as what the daemon's own say; where the session is not known, it looks."""
    heard: list[str] = []
    monkeypatch.setattr(part, "_step", lambda one: heard.append("step"))
    monkeypatch.setattr(part, "_intent", lambda one: heard.append("intent"))
    monkeypatch.setattr(part, "look_soon", lambda: heard.append("look"))
    asked = part.asked.table()["sync_stepped"].act
    for one, intent in ((session, False), (session, True), (SessionId(StatementId(b"?" * 32)), True)):
        assert await asked(session=one, intent=intent)  # type: ignore[misc]
    assert heard == ["step", "intent", "look"]


def test_what_runs_when_a_daemon_starts_is_alone_until_a_person_is_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[around.Told] = []
    monkeypatch.setattr(around, "write", lambda one, folder=None: told.append(one))
    me = device_named("laptop")
    with opened(tmp_path, "laptop") as store:
        args = programs.encode_args({"prompt": "go"})
        going, other, resting = (sessions.create(store, me, program="agent", args=args) for _ in range(3))
        for session in (going, other):
            should_run.note(store, should_run.Note(session, None, None))
    part, _, workers = part_of(tmp_path)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        assert told[0].alone == told[-1].alone == {going, other} and resting not in told[-1].alone
        for hear in workers.on_person:
            hear(going)
        assert told[-1].alone == {other}
        await tell_of_steps(part, monkeypatch, resting)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(live())


def test_while_it_is_not_known_what_runs_when_a_daemon_starts_each_session_is_alone_that_no_person_is_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[around.Told] = []
    monkeypatch.setattr(around, "write", lambda one, folder=None: told.append(one))
    me = device_named("laptop")
    with opened(tmp_path, "laptop") as store:
        args = programs.encode_args({"prompt": "go"})
        going, other, resting = (sessions.create(store, me, program="agent", args=args) for _ in range(3))
        for session in (going, other):
            should_run.note(store, should_run.Note(session, None, None))
    busy = [True]
    noted = should_run.noted

    def read(store: Store) -> list[should_run.Note]:
        if busy:
            raise BusyError("Another process is writing.")
        return noted(store)

    monkeypatch.setattr(should_run, "noted", read)
    part, _, workers = part_of(tmp_path)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        assert not any(told[-1].is_attended(one) for one in (going, other, resting))
        for hear in workers.on_person:
            hear(going)
        assert told[-1].is_attended(going) and not told[-1].is_attended(other)
        busy.clear()
        part.look_soon()
        while told[-1].alone is None:
            await asyncio.sleep(0.005)
        assert told[-1].alone == {other} and told[-1].is_attended(going) and told[-1].is_attended(resting)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(live(), 60))


def test_a_session_at_work_is_told_of_at_once_and_then_what_came_meanwhile_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped(tmp_path, "laptop")
    part, _, workers = part_of(tmp_path)
    told: list[SessionId] = []
    monkeypatch.setattr(part._engine, "noticed", lambda session: told.append(session) or Out())
    one, other, third = (SessionId(StatementId(bytes([number]) * 32)) for number in range(3))

    async def until(count: int) -> None:
        while len(told) < count:
            await asyncio.sleep(0.001)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        monkeypatch.setattr(pacing, "PACE_SECONDS", 3600.0)
        workers.on_step[0](one)
        await until(1)
        for _ in range(20):
            workers.on_step[0](one)
            await asyncio.sleep(0)
        workers.on_step[0](other)
        await until(2)
        assert told == [one, other], "one session does not keep another one waiting"
        await part.fresh(one, device_named("laptop").id)
        assert told == [one, other, one], "who asks how far another device is does not wait"
        workers.on_step[0](one)
        await part.stop()
        assert told == [one, other, one, one], "nor does the end of the daemon"
        monkeypatch.setattr(pacing, "PACE_SECONDS", 0.05)
        workers.on_step[0](third)
        await until(5)
        workers.on_step[0](third)
        await until(6)
        assert told[4:] == [third, third] and third not in part._pacing
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_an_intent_waits_for_nothing_while_a_plain_step_of_its_session_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "PACE_SECONDS", 3600.0)
    monkeypatch.setattr(syncing, "LOOK_SECONDS", 3600.0)
    grouped(tmp_path, "laptop", "desktop")

    async def live() -> None:
        parts = []
        for name in ("laptop", "desktop"):
            part, peers, workers = part_of(tmp_path, name)
            parts.append((part, peers, workers, asyncio.create_task(part.run())))
            await part._ready.wait()
        (laptop, near, workers, _), (_, far, _, _) = parts
        listener = await far.transport.listen(far.keep)
        target, port = device_named("desktop").id, listener.port  # type: ignore[attr-defined]
        linked = asyncio.create_task(near.keep(await near.transport.dial("127.0.0.1", port, target)))
        me = device_named("laptop")
        with opened(tmp_path, "laptop") as store, opened(tmp_path, "desktop") as there:
            args = programs.encode_args({"prompt": "go"})
            session, other = (sessions.create(store, me, program="agent", args=args) for _ in range(2))
            work = {one: Grown(store, me, one, Memory(10)) for one in (session, other)}

            def step(one: SessionId, tell: list[Callable[[SessionId], None]]) -> CheckpointId:
                made = work[one].step()
                for hear in tell:
                    hear(one)
                return made

            def begin(one: SessionId, tell: list[Callable[[SessionId], None]]) -> None:
                doors = work[one].doors
                assert doors is not None and doors.part.known.view.token is not None
                with store.transaction():
                    token = doors.part.known.view.token.id
                    Pen(store, me, one, doors).intent(token=token, position=7, op="tool", request=Sha256(bytes(32)))
                for hear in tell:
                    hear(one)

            async def until(found: Callable[[], bool]) -> None:
                while not found():
                    await asyncio.sleep(0.001)

            def has(one: SessionId, made: StatementId) -> bool:
                return there.statements.get(one, made) is not None

            def begun(one: SessionId) -> bool:
                return any(isinstance(signed.body, IntentBody) for signed in there.statements.all(one))

            for one in work:
                await laptop.wait_synced(one, target)
            first = step(session, workers.on_step)
            await until(lambda: has(session, first))
            plain = step(session, workers.on_step)
            apart = step(other, workers.on_step)
            await until(lambda: has(other, apart))
            assert not has(session, plain), "a plain step goes with what comes after it"
            begin(session, workers.on_intent)
            await until(lambda: begun(session))
            assert has(session, plain) and not begun(other)
            begin(other, [])
            laptop.look_soon()  # As from time to time: nobody told of that one, and the session was told of just now.
            await until(lambda: begun(other))
        linked.cancel()
        for *_, running in parts:
            running.cancel()
        await asyncio.gather(linked, *(one[3] for one in parts), return_exceptions=True)
        await listener.close()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_an_intent_does_not_wait_until_all_sessions_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing_engine, "LOOKED_AT_ONCE", 1)
    grouped(tmp_path, "laptop")
    me = device_named("laptop")
    part, _, workers = part_of(tmp_path)
    done: list[str] = []
    one = SessionId(StatementId(bytes(32)))

    async def live() -> None:
        loop = asyncio.get_running_loop()
        await part._open()

        def looked(_: object) -> Out:
            done.append("looked")
            if len(done) == 1:
                loop.call_soon_threadsafe(workers.on_intent[0], one)
            return Out()

        monkeypatch.setattr(part._engine, "looked", looked)
        monkeypatch.setattr(part._engine, "noticed", lambda _: done.append("told") or Out())
        with opened(tmp_path, "laptop") as store:
            for _ in range(3):
                sessions.create(store, me, program="agent", args=programs.encode_args({"prompt": "go"}))
        await part._look()
        assert done == ["looked", "told", "looked", "looked"]
        await part._rest()
        part._lane.close()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_many_sessions_are_looked_at_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing_engine, "LOOKED_AT_ONCE", 3)
    grouped(tmp_path, "laptop")
    me = device_named("laptop")
    part, _, _ = part_of(tmp_path)
    looked: list[list[SessionId]] = []
    look = part._engine.looked
    monkeypatch.setattr(part._engine, "looked", lambda some: looked.append(some) or look(some))

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        looked.clear()
        with opened(tmp_path, "laptop") as store:
            args = programs.encode_args({"prompt": "go"})
            made = {sessions.create(store, me, program="agent", args=args) for _ in range(7)}
        await part._look()
        assert [len(some) for some in looked] == [3, 3, 1] and {one for some in looked for one in some} == made
        assert set(part._engine.machine.digests) == made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_what_is_due_and_cannot_be_done_is_not_tried_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "LOOK_SECONDS", 1000.0)
    grouped(tmp_path, "laptop")
    part, _, _ = part_of(tmp_path)
    tried: list[str] = []

    def ticked() -> Out:
        tried.append("ticked")
        raise BusyError("Another process is writing.")

    monkeypatch.setattr(part._engine, "ticked", ticked)
    monkeypatch.setattr(part._engine, "deadline_ms", lambda: around.now_ms() - 1)

    async def live() -> None:
        assert part._until() < 1, "it is due"
        for _ in range(3):
            await part._turn()
        assert tried == ["ticked"] and part._until() > 100
        await part._rest()
        part._lane.close()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_content_that_was_read_goes_though_what_comes_behind_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped(tmp_path, "laptop")
    part, _, _ = part_of(tmp_path)
    there: list[bytes | None] = [b"1", b"2", None, b"3"]

    def next_part(_: object) -> bytes | None:
        if not there or (raw := there.pop(0)) is None:
            raise DamagedStoreError("It cannot be read.")
        return raw

    monkeypatch.setattr(part._engine, "next_part", next_part)
    monkeypatch.setattr(part._links, "hears", lambda *_: True)
    way = Way(link=cast(Link, SimpleNamespace(peer=device_named("desktop").id)))

    async def live() -> None:
        assert await part._next_parts(way) == [b"1", b"2"]
        there.insert(0, None)
        assert await part._next_parts(way) == [] and way.content_waits, "it is tried again"
        assert await part._next_parts(way) == [b"3"]
        part._lane.close()

    asyncio.run(asyncio.wait_for(live(), 60))


def test_on_one_channel_of_a_link_content_is_read_ahead_however_many_its_peer_opens(tmp_path: Path) -> None:
    grouped(tmp_path, "laptop")
    part, peers, _ = part_of(tmp_path)

    class Ends:
        """A channel on which nothing comes."""

        ahead = 0

        def read_ahead(self, bytes_more: int) -> None:
            self.ahead += bytes_more

        async def receive(self) -> None:
            return None

    class AnyLink:
        """One of two."""

    async def live() -> None:
        part._ready.set()
        links = [AnyLink(), AnyLink()]
        for link in links:
            pages = [Ends(), Ends()]
            for one in pages:
                await peers.serving[syncing.PAGES](cast(Channel, one), cast(Link, link))
            assert [one.ahead for one in pages] == [syncing.AHEAD_BYTES, 0]
        part._lane.close()

    asyncio.run(asyncio.wait_for(live(), 60))
