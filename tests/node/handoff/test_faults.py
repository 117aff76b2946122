"""Faults that moving a session can have: it is removed on its way, or the tree has changes of the person's own."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, repository, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import Site, house, unasked, until
from tests.node.two import Device

from hhd.base import log
from hhd.base.errors import RefusedError
from hhd.node import sessions
from hhd.node.ended import End
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff import wishes as handoff_wishes
from hhd.node.handoff.going import Going
from hhd.node.handoff.turns import Turns
from hhd_protocol.handoff import Handoff, Stage
from hhd_protocol.ids import SessionId

pytestmark = needs_agent

SCRIPT = [GLOB, says(call("bash", command="echo x >> runs; echo one")), says(text("Done."))]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, SCRIPT, "laptop", "desktop", again=0.2, look=0.05, reply=60.0) as made:
        yield made


def git(folder: Path, *words: str) -> str:
    alice = ["git", "-c", "user.name=alice", "-c", "user.email=alice@laptop.test"]
    return subprocess.run([*alice, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def waiting(laptop: Device) -> SessionId:
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    return session


def at_ready(device: Device, turns: Turns, act: Callable[[], None]) -> None:
    """Do something once at the target, between its word that all is there and the release."""
    real, done = turns._now, list[bool]()

    def now(going: Going, after: Handoff) -> None:
        real(going, after)
        if after.stage is Stage.READY and not done:
            done.append(True)
            act()

    turns._now = now  # type: ignore[method-assign]


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_session_on_its_way_is_not_removed_at_the_target_and_arrives(two: list[Device], everywhere: bool) -> None:
    laptop, desktop = two
    session = waiting(laptop)
    said: list[str] = []

    def remove() -> None:
        with pytest.raises(RefusedError) as refused:
            desktop.control.remove(desktop.control.removal(session.hex(), everywhere=everywhere))
        said.append(str(refused.value))

    async def go() -> None:
        async with house(two) as home:
            at_ready(desktop, home.sites["desktop"].handoffs.turns, remove)
            assert (await home.sites["laptop"].transfer(session, "desktop"))[-1].status == 0
            await until(lambda: session in home.sites["desktop"].started)
            await until(lambda: not handoff_journal.unfinished(desktop.store))

    asyncio.run(go())
    assert len(said) == 1 and "is under way; nothing was removed" in said[0]
    shown = desktop.control.removal(session.hex(), everywhere=everywhere)
    assert desktop.control.remove(shown).session == session.hex(), "the positive control: at rest it is removed"


def test_a_session_that_is_gone_at_the_target_is_not_asked_for_for_ever_and_can_be_gone_on_with(
    two: list[Device],
) -> None:
    laptop, desktop = two
    session = waiting(laptop)

    lost: list[bool] = []

    def lose() -> None:
        lost.append(True)
        with desktop.store.transaction():
            desktop.store.remove_session(session, ())

    async def go() -> None:
        async with house(two) as home:
            bringing = home.sites["laptop"]._bring

            def bring(target: Site, session: SessionId) -> None:
                if not lost:  # A round that is due again, on a slow machine, must not make it good.
                    bringing(target, session)

            home.sites["laptop"]._bring = bring  # type: ignore[method-assign]
            at_ready(desktop, home.sites["desktop"].handoffs.turns, lose)
            with mock.patch.object(handoff_wishes, "REPLY_SECONDS", 0.5):
                moved = await home.sites["laptop"].transfer(session, "desktop")
            assert moved[-1].status == 5 and "hhd takeover" in moved[-1].way
            assert home.sites["desktop"].started == []
            control = laptop.control
            assert control.take_over(control.takeable(session.hex()), "the desktop lost it").token == 3
            home.sites["laptop"].handoffs.learned(session)
            await until(lambda: not handoff_journal.unfinished(desktop.store))
            await until(lambda: not any(site.handoffs.turns.goings for site in home.sites.values()))

    asyncio.run(go())
    assert [one.stage for one in laptop.control.transfers()] == ["superseded"]
    assert sessions.view(laptop.store, laptop.me, session).owner == laptop.me.id


def test_one_unstaged_change_arrives_unstaged_and_what_the_person_changed_meanwhile_is_kept(
    two: list[Device],
) -> None:
    laptop, _ = two
    laptop.repo.rmdir()
    repository(laptop.repo)
    (laptop.repo / "doubles.py").write_text("changed, not staged\n")
    before = git(laptop.repo, "status", "--porcelain")
    assert before == " M doubles.py\n"
    session = waiting(laptop)

    async def go() -> None:
        async with house(two) as home:
            moved = await home.sites["laptop"].transfer(session, "desktop")
            assert moved[-1].over and moved[-1].status == 0 and "all of it arrived" in moved[-1].continuity
            await until(lambda: session in home.sites["desktop"].started)
            there = home.sites["desktop"].folder(session)
            assert git(there, "status", "--porcelain") == before
            assert (there / "doubles.py").read_text() == "changed, not staged\n"
            assert git(laptop.repo, "status", "--porcelain") == before, "the source's tree is as it was"
            (laptop.repo / "check.py").write_text("of the person, meanwhile\n")
            back = await home.sites["desktop"].transfer(session, "laptop")
            assert back[-1].status == 0
            await until(lambda: session in home.sites["laptop"].started)
            assert (home.sites["laptop"].folder(session) / "doubles.py").read_text() == "changed, not staged\n"
            assert (laptop.repo / "check.py").read_text() == "of the person, meanwhile\n"
            assert git(laptop.repo, "log", "--format=%s") == "start\n" and git(laptop.repo, "stash", "list") == ""

    asyncio.run(go())


def test_what_a_target_could_not_begin_is_in_its_log_and_the_session_is_its_own_all_the_same(two: list[Device]) -> None:
    laptop, desktop = two
    session = waiting(laptop)

    async def go() -> list[str]:
        async with house(two) as home:
            with (
                mock.patch.object(log, "fault") as fault,
                mock.patch.object(handoff_steps, "bring", side_effect=RefusedError("no room")),
                mock.patch.object(home.sites["desktop"], "start", side_effect=RefusedError("too many")),
            ):
                assert (await home.sites["laptop"].transfer(session, "desktop"))[-1].status == 0
                await until(lambda: not handoff_journal.unfinished(desktop.store))
            return [one.args[0] for one in fault.call_args_list]

    assert asyncio.run(go()) == ["handoff_without_files", "handoff_not_begun"]
    assert sessions.view(desktop.store, desktop.me, session).owner == desktop.me.id
