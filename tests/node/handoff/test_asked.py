"""A handoff asked for at a third device: given up from there or only left, waited for in silence, listed there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, known_to_all, run, unasked, until
from tests.node.two import Device

from hhd.base.errors import Exit, RefusedError
from hhd.node import asked_notes
from hhd.node.answers.handoff import Moved
from hhd.node.answers.transferred import Transferred
from hhd.node.handoff import asked as handoff_asked
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff import wishes as handoff_wishes
from hhd_protocol.handoff import Please, Told
from hhd_protocol.ids import DeviceId, SessionId, StatementId, TransferId

pytestmark = needs_agent


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, [GLOB], "laptop", "desktop", "tower", again=0.2, look=0.05) as made:
        yield made


@pytest.fixture
def session(three: list[Device]) -> SessionId:
    return known_to_all(three)


def listed(device: Device) -> list[tuple[str, bool]]:
    return [(one.stage, one.over) for one in device.control.transfers()]


def rests_at(home: House, session: SessionId) -> None:
    """Let the handoff of the session wait for an effect, before it is paused."""
    laptop = home.sites["laptop"]
    laptop.runs.add(session)
    laptop.effect_ends.clear()


@pytest.mark.parametrize("at", ["tower", "desktop"])
def test_who_leaves_before_the_release_undoes_it_and_is_told_where_it_goes_on(
    three: list[Device], session: SessionId, at: str
) -> None:
    laptop, desktop, _ = three

    async def go(home: House) -> None:
        rests_at(home, session)
        site = home.sites[at]
        asking = asyncio.create_task(site.transfer(session, "desktop"))
        await until(lambda: home.sites["laptop"].soft == [True])
        left = await site.handoffs.transfer_abort(session.hex())
        assert left.over and left.stage == "aborted" and left.status == Exit.ROLLED_BACK
        assert (left.continuity, left.ownership) == ("nothing was changed", "laptop kept it, and goes on with it")
        assert (await asking)[-1] == left
        await until(lambda: listed(desktop) in ([("aborted", True)], []))
        await until(lambda: not home.sites["desktop"].handoffs.turns.goings)  # It was told, and waits for nothing.
        home.sites["laptop"].effect_ends.set()
        await until(lambda: home.sites["laptop"].started == [session])
        with pytest.raises(RefusedError, match="No handoff"):
            await site.handoffs.transfer_abort(session.hex())
        assert (await site.transfer(session, "desktop"))[-1].status == 0, "nothing of it is in the way"

    run(three, go)
    assert [one.stage for one in laptop.control.transfers()][-1] == "aborted"


@pytest.mark.parametrize("at", ["laptop", "tower"])
def test_who_leaves_after_the_release_only_leaves_and_the_handoff_is_done(
    three: list[Device], session: SessionId, at: str
) -> None:
    async def go(home: House) -> None:
        site = home.sites[at]
        with mock.patch.object(handoff_steps, "take", side_effect=RefusedError("not yet")):
            asking = asyncio.create_task(site.transfer(session, "desktop"))
            await until(lambda: [one.stage for one in three[0].control.transfers()] == ["released"])
            left = await site.handoffs.transfer_abort(session.hex())
            assert left.stage == "released" and not left.over and "desktop" in left.sentence
            asking.cancel()
        await until(lambda: three[0].control.transfers()[0].stage == "cleaned")
        transfer = left.transfer
        if at == "laptop":
            over = await site.handoffs.transfer_abort(session.hex(), transfer)
            assert over.sentence == "It is on desktop now.", "one that is over is told as it stands"

    run(three, go)


def test_who_leaves_before_the_owner_began_with_it_leaves_nothing_behind(
    three: list[Device], session: SessionId
) -> None:
    laptop = three[0]
    held = asyncio.Event()

    async def go(home: House) -> None:
        site = home.sites["laptop"]
        wish = site.handoffs._wishes.wish

        async def late(*given: Any) -> Any:
            await held.wait()
            return await wish(*given)

        with mock.patch.object(site.handoffs._wishes, "wish", late):
            asking = asyncio.create_task(home.sites["tower"].transfer(session, "desktop"))
            await until(lambda: len(site.handoffs._heard.asked) == 1)
            leaving = asyncio.create_task(home.sites["tower"].handoffs.transfer_abort(session.hex()))
            await until(lambda: not site.handoffs._heard.asked)
            held.set()
            left = await leaving
        assert left.stage == "aborted" and left.status == Exit.ROLLED_BACK and "left" in left.sentence
        assert (await asking)[-1].stage == "aborted" and not site.handoffs.turns.goings

    run(three, go)
    assert laptop.control.transfers() == []


def test_in_silence_it_is_said_that_nothing_is_heard_and_it_ends_uncertain_as_before(
    three: list[Device], session: SessionId
) -> None:
    async def go(home: House) -> None:
        with (
            mock.patch.object(handoff_asked, "QUIET_SECONDS", 0.1),
            mock.patch.object(handoff_wishes, "REPLY_SECONDS", 1.0),
            mock.patch.object(handoff_steps, "take", side_effect=RefusedError("not yet")),
        ):
            begin = time.monotonic()
            steps = await home.sites["tower"].transfer(session, "desktop")
            assert time.monotonic() - begin >= 1.0
        released, quiet, last = steps[-3:]
        assert (released.stage, quiet.stage, last.stage) == ("released",) * 3
        assert released.sentence.startswith("Released"), "what is silent for ten times as long is told once"
        assert not quiet.over and "laptop has said nothing more for some seconds" in quiet.sentence
        assert last.over and last.status == Exit.UNCERTAIN and last.ownership == "released to desktop"

    run(three, go)


def test_a_device_that_is_gone_is_said_to_be_and_records_that_came_another_way_say_that_it_was_released(
    three: list[Device], session: SessionId
) -> None:
    _, desktop, tower = three

    async def go(home: House) -> None:
        rests_at(home, session)
        steps: list[Moved] = []

        async def follow() -> None:
            async for moved in home.sites["tower"].handoffs.transfer(session.hex(), "desktop"):
                steps.append(moved)

        with (
            mock.patch.object(handoff_asked, "QUIET_SECONDS", 0.1),
            mock.patch.object(handoff_wishes, "REPLY_SECONDS", 0.5),
        ):
            following = asyncio.create_task(follow())
            await until(lambda: home.sites["laptop"].soft == [True])
            await until(lambda: len(steps) > 0 and "said nothing more" in steps[-1].sentence)
            home.cut("tower", "laptop")
            await until(lambda: "laptop is not connected any more" in steps[-1].sentence)
            home.sites["laptop"].effect_ends.set()
            await until(lambda: listed(desktop) == [("cleaned", True)])
            assert not following.done(), "nothing of it is known here yet"
            with tower.store.transaction():
                for one in desktop.store.statements.all(session):
                    if type(one.body).__name__ == "ReleaseBody":
                        tower.store.statements.add(session, one.raw)
            await following
        assert steps[-1].status == Exit.UNCERTAIN and steps[-1].ownership == "released to desktop"

    run(three, go)
    assert tower.control.transfers()[0].asked_of is not None


def test_what_was_asked_for_here_is_listed_here_with_what_was_said_last(
    three: list[Device], session: SessionId
) -> None:
    laptop, desktop, tower = three

    def one(device: Device) -> Transferred:
        (found,) = device.control.transfers()
        return found

    async def go(home: House) -> None:
        rests_at(home, session)
        asking = asyncio.create_task(home.sites["tower"].transfer(session, "desktop"))
        await until(lambda: listed(tower) in ([("admitted", False)], [("staged", False)]))
        found = one(tower)
        assert found.asked_of is not None and (found.asked_of.name, found.peer.name) == ("laptop", "desktop")
        assert found.transfer == one(laptop).transfer and not found.outgoing and "laptop had it" in found.ownership
        assert "hhd transfers there" in found.way
        home.sites["laptop"].effect_ends.set()
        assert (await asking)[-1].status == 0
        await until(lambda: listed(tower) == [("acknowledged", True)])
        assert one(tower).ownership == "desktop has it" and one(tower).way == ""
        await until(lambda: listed(desktop) == [("cleaned", True)])
        assert one(laptop).asked_of is one(desktop).asked_of is None
        with mock.patch.object(handoff_steps, "fit", side_effect=RefusedError("It needs git.")):
            assert (await home.sites["laptop"].transfer(session, "here"))[-1].status == 3
        await until(lambda: listed(laptop)[0] == ("aborted", True))
        assert laptop.control.transfers()[0].ownership == "desktop kept it", "a refusal began no journal here"

    run(three, go)


def test_words_of_another_device_or_of_another_session_are_not_told_and_a_flood_is_bounded(
    three: list[Device], session: SessionId
) -> None:
    laptop, desktop, _ = three

    async def go(home: House) -> None:
        rests_at(home, session)
        site = home.sites["tower"]
        asking = asyncio.create_task(site.transfer(session, "desktop"))
        await until(lambda: home.sites["laptop"].soft == [True])
        askings = site.handoffs._askings
        (asked,) = askings._open.values()
        await until(lambda: asked.last is not None and asked.last.stage == "staged")
        said = Told(transfer=asked.please.transfer, session=session, stage="acknowledged", sentence="x", over=True)
        askings.told(desktop.me.id, said)
        askings.told(laptop.me.id, replace(said, session=SessionId(StatementId(b"x" * 32))))
        askings.told(laptop.me.id, replace(said, transfer=TransferId(b"x" * 16)))
        assert not asked.over
        doing = len(asyncio.all_tasks())
        for _ in range(1000):
            askings.told(laptop.me.id, replace(said, stage="ready", over=False))
        assert len(asyncio.all_tasks()) <= doing + 1, "what is kept of it is the last of it"
        assert asked.queue.qsize() <= handoff_asked.WAITING_MAX
        askings.told(laptop.me.id, said)
        assert (await asking)[-1].stage == "acknowledged", "the last word comes all the same"
        home.sites["laptop"].effect_ends.set()

    run(three, go)


def test_the_last_ones_alone_are_kept_and_what_is_damaged_is_left_out(three: list[Device]) -> None:
    store, peer = three[0].store, three[1].me.id
    for number in range(asked_notes.KEPT_MAX + 5):
        please = Please(
            transfer=TransferId(number.to_bytes(16, "big")),
            session=SessionId(StatementId(b"s" * 32)),
            to=DeviceId(b"t" * 32),
        )
        asked_notes.keep(store, please, peer, None, number)
    found = asked_notes.every(store)
    assert len(found) == asked_notes.KEPT_MAX and found[0].at_ms == asked_notes.KEPT_MAX + 4
    moved = Moved(transfer="", session="", stage="released", sentence="It is\udcff.", over=False)
    asked_notes.keep(store, please, peer, moved, 99)
    assert asked_notes.every(store)[0].stage == "released" and len(asked_notes.every(store)) == len(found)
    store.rows.put("handoff-asked", b"", b"", b"\x81\x01")
    assert asked_notes.every(store) == []
