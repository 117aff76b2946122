"""Handoffs that a journal holds are gone on with by the daemon that starts, also where nobody says a word to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import Site, house, unasked, until
from tests.node.two import Device, waits_for_a_yes

from hhd.base.errors import RefusedError
from hhd.node import bringing, files_due, here, sessions, should_run
from hhd.node.handoff import again as handoff_again
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import notes as handoff_notes
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.again import Again
from hhd.node.handoff.going import Going
from hhd_protocol.handoff import AnyAside, AnyMessage, Begun, Offer, Stage, Took
from hhd_protocol.ids import DeviceId, SessionId, StatementId, TransferId

pytestmark = needs_agent

SCRIPT = [GLOB, says(call("bash", command="true")), says(text("Done."))]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, SCRIPT, "laptop", "desktop", again=3600.0) as made:
        yield made


async def _never(_: Going) -> None:
    await asyncio.Event().wait()


async def _silent(_: Going, __: Offer) -> None:
    await asyncio.Event().wait()


async def _killed_once_taken(two: list[Device], session: SessionId, seconds: float) -> list[SessionId]:
    """What the desktop begins after it was killed between taking a session and beginning it, with nobody to talk to."""
    _laptop, desktop = two
    async with house(two) as home:
        site = home.sites["desktop"]
        site.handoffs.turns.acts.open = _never  # type: ignore[method-assign]
        moving = asyncio.create_task(home.sites["laptop"].transfer(session, "desktop"))
        await until(lambda: sessions.view(desktop.store, desktop.me, session).owner == desktop.me.id)
        await home.kill("desktop")
        moving.cancel()
        await home.kill("laptop")
        (record,) = handoff_journal.unfinished(desktop.store)
        assert record.stage in (Stage.TAKEN, Stage.ACKNOWLEDGED) and not site.started
        assert not handoff_steps.is_opened(desktop.store, record.transfer)
        again = await home.up("desktop")
        try:
            await until(lambda: handoff_steps.is_opened(desktop.store, record.transfer), seconds)
        except TimeoutError:
            return again.started
        assert (again.folder(session) / "notes").read_text() == "of the laptop\n"
        return again.started


def test_a_session_that_was_taken_and_not_begun_is_begun_by_the_next_daemon_alone(two: list[Device]) -> None:
    session = waits_for_a_yes(two[0])
    assert asyncio.run(_killed_once_taken(two, session, 60)) == [session]


def test_a_session_that_was_let_run_before_the_daemon_was_killed_keeps_its_folder_and_what_it_wrote_there(
    two: list[Device], tmp_path: Path
) -> None:
    """Its files, its folder and that it should run are durable together; that it was begun is noted later."""
    desktop, session, folder = two[1], waits_for_a_yes(two[0]), tmp_path / "project"
    folder.mkdir()
    here.note(desktop.store, session, here.Note(place=None, folder=folder))

    async def at_work(site: Site, _: SessionId) -> None:
        if site.started == [session] and not (folder / "made").exists():
            assert (folder / "notes").read_text() == "of the laptop\n"
            (folder / "made").write_text("by the session\n")
            (folder / "notes").write_text("of the session\n")
            await asyncio.Event().wait()

    async def go() -> None:
        async with house(two) as home:
            home.on_start = at_work
            moving = asyncio.create_task(home.sites["laptop"].transfer(session, "desktop"))
            await until((folder / "made").exists)
            await home.kill("desktop")
            moving.cancel()
            await home.kill("laptop")
            (record,) = handoff_journal.unfinished(desktop.store)
            assert not handoff_steps.is_opened(desktop.store, record.transfer)
            assert [one.session for one in should_run.noted(desktop.store)] == [session], "a daemon that starts runs it"
            again = await home.up("desktop")
            await until(lambda: handoff_steps.is_opened(desktop.store, record.transfer))
            assert again.started == [session] and again.folder(session) == folder
            assert handoff_notes.of(desktop.store, record.transfer) == ()
            assert sorted(one.name for one in folder.iterdir() if one.name != ".git") == ["made", "notes"]
            assert (folder / "notes").read_text() == "of the session\n"

    asyncio.run(go())


def test_of_a_session_without_files_none_appear_under_it_after_a_crash(two: list[Device]) -> None:
    desktop, session, transfer = two[1], SessionId(StatementId(b"s" * 32)), TransferId(b"t" * 16)
    files_due.note(desktop.store, session)
    with mock.patch.object(bringing, "bring", return_value=None) as brought:
        for _ in "before", "after a crash":
            assert handoff_steps.bring(desktop.store, desktop.me, transfer, session, "") == (None, True)
            assert brought.call_count == 1 and not handoff_steps.is_opened(desktop.store, transfer)
            assert [one.session for one in should_run.noted(desktop.store)] == [session]
        should_run.forget(desktop.store, session)
        assert handoff_steps.bring(desktop.store, desktop.me, transfer, session, "") == (None, False), "it rests since"


def test_of_a_session_whose_files_cannot_appear_they_are_tried_again_and_no_daemon_begins_it(two: list[Device]) -> None:
    desktop, session, transfer = two[1], SessionId(StatementId(b"s" * 32)), TransferId(b"t" * 16)
    files_due.note(desktop.store, session)
    with mock.patch.object(bringing, "bring", side_effect=RefusedError("There is no room.")) as brought:
        for tried in 1, 2:
            with pytest.raises(RefusedError, match="no room"):
                handoff_steps.bring(desktop.store, desktop.me, transfer, session, "")
            assert brought.call_count == tried and should_run.noted(desktop.store) == []


def test_what_was_begun_is_no_longer_on_its_way_though_its_source_has_not_heard(two: list[Device]) -> None:
    """Who is attached is told nothing of how a session on its way stands."""
    session = waits_for_a_yes(two[0])

    async def go() -> None:
        async with house(two) as home:
            site = home.sites["desktop"]
            ways = site.handoffs.turns._ways
            send, open_ = ways.send, site.handoffs.turns.acts.open

            async def mute(peer: DeviceId, message: AnyMessage | AnyAside) -> None:
                if not isinstance(message, Took | Begun):
                    await send(peer, message)

            async def opened(going: Going) -> None:
                assert site.handoffs.moving(session) == "", "the positive control"
                await open_(going)

            with mock.patch.object(ways, "send", mute), mock.patch.object(site.handoffs.turns.acts, "open", opened):
                moving = asyncio.create_task(home.sites["laptop"].transfer(session, "desktop"))
                await until(lambda: site.started == [session])
                await until(lambda: site.handoffs.moving(session) is None)
                (record,) = handoff_journal.unfinished(two[1].store)
                assert record.stage is Stage.TAKEN
                moving.cancel()
                await home.kill("laptop")
                await home.kill("desktop")
                again = await home.up("desktop")
                await until(lambda: again.handoffs.moving(session) is None)
                assert [one.stage for one in handoff_journal.unfinished(two[1].store)] == [Stage.TAKEN]

    asyncio.run(go())


def test_the_source_hears_of_what_a_person_took_from_a_file_beside_the_daemon(two: list[Device]) -> None:
    laptop, desktop = two
    session = waits_for_a_yes(laptop)

    async def go() -> None:
        with (
            mock.patch.object(handoff_again, "FILES_SECONDS", 0),
            mock.patch.object(handoff_again, "LOOK_SECONDS", 0.02),
        ):
            async with house(two) as home:  # Once their journals are read: a start tells of it anyway.
                await until(lambda: all(one.handoffs._ready.is_set() for one in home.sites.values()))
                made = laptop.control.release(session.hex(), "desktop")
                raw = b"".join(bytes(part) for part in made.parts)
                (record,) = handoff_journal.unfinished(laptop.store)
                assert record.stage is Stage.RELEASED
                desktop.control.receive(raw, Path("release"))
                await until(lambda: not handoff_journal.unfinished(laptop.store), 20)
                await until(lambda: not handoff_journal.unfinished(desktop.store), 20)

    asyncio.run(go())


def test_a_slow_store_is_asked_once_at_a_time_about_a_handoff_that_nobody_answers(two: list[Device]) -> None:
    """Twenty handoffs stood still so: each look was another one's for the store to do first, and came sooner."""
    session, asked, open_again = waits_for_a_yes(two[0]), list[Going](), threading.Event()

    async def go() -> None:
        with (
            mock.patch.object(handoff_again, "AGAIN_SECONDS", -1.0),
            mock.patch.object(handoff_again, "LOOK_SECONDS", 0),
        ):
            async with house(two) as home:
                site = home.sites["laptop"]
                home.sites["desktop"].handoffs.turns.acts.check = _silent  # type: ignore[method-assign]
                moving = asyncio.create_task(site.transfer(session, "desktop"))
                await until(lambda: [one.stage for one in handoff_journal.unfinished(two[0].store)] == [Stage.OFFERED])
                watch, held = site.handoffs.turns.watch, threading.Event()

                async def watched(going: Going) -> None:
                    asked.append(going)
                    await watch(going)

                def hold() -> None:
                    held.set()
                    open_again.wait()

                site.handoffs.turns.watch = watched  # type: ignore[method-assign]
                slow = asyncio.create_task(site.lanes.looking.do(hold))
                try:
                    await until(held.is_set)
                    before = len(asked)  # The last one of these may wait behind it.
                    for _ in range(100):
                        await asyncio.sleep(0)
                    assert len(asked) <= before + 1
                finally:
                    open_again.set()
                await slow
                await until(lambda: len(asked) > before + 1)  # The positive control.
                moving.cancel()

    asyncio.run(go())


def test_a_daemon_that_does_not_go_on_after_its_start_is_noticed(two: list[Device]) -> None:
    """The positive control: without it, the session would be this device's, and lie there."""
    session = waits_for_a_yes(two[0])
    with mock.patch.object(Again, "begin", lambda _: None):
        assert asyncio.run(_killed_once_taken(two, session, 0.5)) == []


def test_of_two_persons_who_hand_it_on_in_the_same_moment_one_is_refused(two: list[Device]) -> None:
    session = waits_for_a_yes(two[0])

    async def go() -> None:
        async with house(two) as home:
            both = [home.sites["laptop"].transfer(session, "desktop") for _ in range(2)]
            said = await asyncio.gather(*both, return_exceptions=True)
            refused = [one for one in said if isinstance(one, RefusedError)]
            assert len(refused) == 1 and "is under way" in str(refused[0])
            assert [one[-1].status for one in said if isinstance(one, list)] == [0]
            assert [len(list(handoff_journal.every(one.store))) for one in two] == [1, 1]
            assert home.sites["desktop"].started == [session]

    asyncio.run(go())
