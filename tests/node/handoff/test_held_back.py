"""What ran until a handoff had it rest goes on here if that comes to nothing, whatever ended the daemon meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.driven import GLOB
from tests.node.handoff.handing import Site, house, unasked, until
from tests.node.two import Device

from hhd.node import should_run
from hhd.node.control import ControlService
from hhd.node.ended import End
from hhd.node.handoff import held_back
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff.acts import Acts
from hhd.node.handoff.going import Going
from hhd.node.run_verbs import RunVerbs
from hhd.node.should_run import Note
from hhd.node.store import opened
from hhd.store.errors import DamagedStoreError
from hhd_protocol import live
from hhd_protocol.codec import encode
from hhd_protocol.handoff import Stage
from hhd_protocol.ids import SessionId, StatementId, TransferId

A, B = TransferId(bytes(16)), TransferId(bytes([1]) * 16)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, [GLOB], "laptop", "desktop", look=0.05) as made:
        yield made


async def _killed_while_it_waits(
    two: list[Device], session: SessionId, meanwhile: Callable[[], Awaitable[None]]
) -> Site:
    """The laptop's next daemon, once it gave up the handoff in which the one before was killed, the desktop away."""
    laptop = two[0]
    should_run.note(laptop.store, Note(session, laptop.repo, "scripted:x"))
    async with house(two) as home:
        site = home.sites["laptop"]
        site.runs.add(session)
        site.effect_ends.clear()
        moving = asyncio.create_task(site.transfer(session, "desktop"))
        await until(lambda: site.soft == [True])
        await home.kill("desktop")
        await home.kill("laptop")
        moving.cancel()
        assert held_back.not_held(laptop.store) == [], "the next daemon does not begin it under the handoff"
        await meanwhile()
        again = await home.up("laptop")
        await until(lambda: bool(again.handoffs.turns.goings))
        assert again.started == []
        (going,) = again.handoffs.turns.goings.values()
        going.until = time.monotonic() - 1
        await until(lambda: handoff_journal.unfinished(laptop.store) == [])
        await until(lambda: not going.turn.locked() and not going.busy)  # And what follows from it.
        return again


async def _nothing() -> None:
    """Nobody does anything meanwhile."""


@needs_agent
def test_a_session_goes_on_when_its_handoff_is_given_up_after_the_daemon_was_killed(two: list[Device]) -> None:
    laptop = two[0]
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    again = asyncio.run(_killed_while_it_waits(two, session, _nothing))
    assert again.started == [session]
    assert held_back.every(laptop.store) == {}
    assert [one.session for one in held_back.not_held(laptop.store)] == [session]


@needs_agent
def test_a_session_that_a_person_paused_meanwhile_stays_paused(two: list[Device]) -> None:
    laptop = two[0]
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING

    class Paused:
        """What `hhd pause` needs of a daemon."""

        elsewhere = None

        def __init__(self) -> None:
            self.store = SimpleNamespace(change=self._change)

        async def _change(self, act: Callable[[ControlService], Any]) -> Any:
            return act(laptop.control)

        async def rest(self, _: SessionId) -> None:
            """It does not wait for another device."""

        async def pause(self, _: SessionId) -> live.State:
            return live.State(name="paused", sentence="", ways=(), effect="", status=0)

    async def pause() -> None:
        assert (await RunVerbs(Paused()).pause_here(session)).state == "paused"  # type: ignore[arg-type]

    assert asyncio.run(_killed_while_it_waits(two, session, pause)).started == []


@needs_agent
def test_a_kill_between_giving_up_and_going_on_does_not_leave_it_paused(two: list[Device]) -> None:
    laptop = two[0]
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING

    async def never(_: Acts, __: Going) -> None:
        await asyncio.Event().wait()

    async def go() -> None:
        async with house(two) as home:
            site = home.sites["laptop"]
            site.runs.add(session)
            site.effect_ends.clear()
            with mock.patch.object(Acts, "resume", never):
                moving = asyncio.create_task(site.transfer(session, "desktop"))
                await until(lambda: site.soft == [True])
                await site.handoffs.transfer_abort(session.hex())
                assert [one.stage for one in handoff_journal.every(laptop.store)] == [Stage.ABORTED]
                await home.kill("laptop")
                moving.cancel()
            again = await home.up("laptop")
            await until(lambda: again.started == [session])

    asyncio.run(go())


@needs_agent
def test_what_was_released_is_not_begun_again_where_it_ran(two: list[Device]) -> None:
    laptop = two[0]
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    should_run.note(laptop.store, Note(session, None, None))

    async def go() -> None:
        async with house(two) as home:
            site = home.sites["laptop"]
            site.runs.add(session)
            site.effect_ends.clear()
            moving = asyncio.create_task(site.transfer(session, "desktop"))
            await until(lambda: site.soft == [True])
            assert [one.session for one in held_back.every(laptop.store).values()] == [session]
            site.effect_ends.set()
            assert (await moving)[-1].status == 0
            assert held_back.every(laptop.store) == {} and should_run.noted(laptop.store) == []
            await home.kill("laptop")
            again = await home.up("laptop")
            await until(again.handoffs._ready.is_set)
            assert again.started == []

    asyncio.run(go())


def test_what_is_held_back_should_run_again_once_and_keeps_where_and_with_what_it_ran() -> None:
    note = Note(SessionId(StatementId(bytes(32))), Path("/a/\udc80b"), "scripted:x")
    with opened() as store:
        assert not held_back.hold(store, A, note.session, None), "it does not run"
        should_run.note(store, note)
        assert held_back.hold(store, A, note.session, None)
        assert held_back.every(store) == {A: note} and should_run.noted(store) == []
        should_run.note(store, note)
        assert held_back.not_held(store) == [], "a worker that was still coming to rest noted it again"
        held_back.pass_on(store, A, B)
        assert held_back.let_run(store, A) is None
        assert held_back.let_run(store, B) == note
        assert held_back.let_run(store, B) is None and held_back.not_held(store) == [note]


@pytest.mark.parametrize("value", [[], [2], [1, 5], [1, [b"x", 5]], [1, [b"x", [b"y", 1, None, 0]]], {}])
def test_a_list_in_another_form_is_damage(value: object) -> None:
    with opened() as store:
        store.rows.put("held back", b"", b"", encode(value))  # type: ignore[arg-type]
        with pytest.raises(DamagedStoreError):
            held_back.every(store)
