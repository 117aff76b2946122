"""A session goes on in no folder in which its files did not appear, and nothing old takes their place elsewhere."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB, Person
from tests.node.handoff.handing import Site, house, until
from tests.node.test_lives_alone import Process, tried
from tests.node.two import Device, brought, devices
from tests.workspace.lab import repository

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import bringing, files_due, here, opening, pair, recapture, sessions, should_run
from hhd.node.answers.handoff import Moved
from hhd.node.appearing import Appearing
from hhd.node.ended import End
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import handing_on
from hhd.node.handoff import steps as handoff_steps
from hhd.node.run import Run
from hhd.node.run_verbs import RunVerbs
from hhd.node.workbench import Workbench
from hhd.node.workers import Workers
from hhd.runtime.outcomes import StopFlag
from hhd.store.store import Store
from hhd_protocol import live
from hhd_protocol.ids import CheckpointId, SessionId, TransferId

pytestmark = needs_agent

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Device]]:
    script = [GLOB, says(call("bash", command="make"))]
    with (
        mock.patch.object(handoff_admission, "_of_model", lambda *_: []),
        devices(tmp_path, script, "laptop", "desktop", rules={"allow": []}) as made,
    ):
        yield made


@pytest.fixture
def session(both: list[Device]) -> SessionId:
    """A session of the laptop, whose files were at the desktop too before its person changed one."""
    laptop, desktop = both
    laptop.repo.rmdir()
    repository(laptop.repo)
    made = laptop.create()
    assert laptop.go_here(made).end is End.WAITING
    brought(laptop, desktop, made)
    assert bringing.bring(desktop.store, desktop.me, made, called="repo") is not None
    (laptop.repo / "one").write_text("newer\n")
    recapture.recapture(Workbench(store=laptop.store, me=laptop.me), made)
    brought(laptop, desktop, made)
    return made


def folder(device: Device, session: SessionId) -> Path:
    noted = here.noted(device.store, session)
    assert noted is not None and noted.folder is not None
    return noted.folder


def full(whole: bool = True) -> AbstractContextManager[object]:
    """Nothing can be written into folders; `whole`: nor be prepared there."""
    return mock.patch.multiple(
        Appearing,
        bring=mock.Mock(side_effect=FULL),
        **({"ready": mock.Mock(side_effect=FULL)} if whole else {"ready": mock.Mock(return_value=None)}),
    )


def going_on(device: Device, session: SessionId, where: Path | None = None) -> AbstractContextManager[Run]:
    return opening.stored(
        device.store, device.me, session,
        folder=where, model=None, face=Person(), stop=StopFlag(), here=device.here(),
    )  # fmt: skip


def by_handoff(laptop: Device, desktop: Device, session: SessionId) -> None:
    """Released while there still was room."""

    async def go() -> Moved:
        async with house([laptop, desktop]) as home:
            said = (await home.sites["laptop"].transfer(session, "desktop"))[-1]
            await until(lambda: session in home.sites["desktop"].started)
            return said

    with full(whole=False):
        assert asyncio.run(go()).status == 0


def by_takeover(laptop: Device, desktop: Device, session: SessionId) -> None:
    with full():
        done = desktop.control.take_over(desktop.control.takeable(session.hex()), "it is gone")
    assert len(done.notes) == 1 and "did not appear: No space left on device. It goes on once they do" in done.notes[0]


def by_head(laptop: Device, desktop: Device, session: SessionId) -> None:
    """Taken by going on from one of its heads, which a person named."""
    bench = Workbench(store=desktop.store, me=desktop.me)
    bench.turn_to(session, desktop.main(session).hex())


@pytest.mark.parametrize("way", [by_handoff, by_takeover, by_head])
def test_where_they_could_not_appear_it_goes_on_once_they_can_and_never_on_older_ones(
    both: list[Device], session: SessionId, way: Callable[[Device, Device, SessionId], None]
) -> None:
    laptop, desktop = both
    old = (folder(desktop, session) / "one").read_text()
    way(laptop, desktop, session)
    assert sessions.view(desktop.store, desktop.me, session).owner == desktop.me.id
    assert (folder(desktop, session) / "one").read_text() == old != "newer\n"
    assert should_run.noted(desktop.store) == [], "no daemon that starts begins it"
    why = r"No space left on device\. It goes on once they do: hhd resume"
    with full(), pytest.raises(RefusedError, match=why), going_on(desktop, session):
        pytest.fail("it went on in a folder that is not as it is")
    with going_on(desktop, session) as run:
        assert (run.workspace.folder / "one").read_text() == "newer\n"
    assert not files_due.are_due(desktop.store, session)


def test_a_folder_that_a_person_names_is_taken_as_it_is(both: list[Device], session: SessionId, tmp_path: Path) -> None:
    laptop, desktop = both
    by_takeover(laptop, desktop, session)
    (tmp_path / "other").mkdir()
    with full(), going_on(desktop, session, tmp_path / "other") as run:
        assert run.workspace.folder == tmp_path / "other" and not files_due.are_due(desktop.store, session)
    with going_on(desktop, session) as run:
        assert run.workspace.folder == tmp_path / "other", "not on the older ones, though it made no step there"


def test_handed_on_again_it_leaves_the_files_it_came_from_as_they_are(both: list[Device], session: SessionId) -> None:
    """The folder here, as it was before, is no newer state of theirs."""
    laptop, desktop = both
    by_handoff(laptop, desktop, session)
    recapture.recapture(Workbench(store=desktop.store, me=desktop.me), session)
    head = CheckpointId(sessions.view(desktop.store, desktop.me, session).main)  # type: ignore[arg-type]
    grant = handing_on.release(
        desktop.store, desktop.me, session,
        to=laptop.me.id, transfer=TransferId(bytes(16)), head=head, then=lambda _: None,
    )  # fmt: skip
    assert not files_due.are_due(desktop.store, session)
    brought(desktop, laptop, session)
    handing_on.take(laptop.store, laptop.me, grant.raw, then=lambda _: None)
    with going_on(laptop, session) as run:
        assert run.workspace.folder == laptop.repo and (laptop.repo / "one").read_text() == "newer\n"


def test_where_there_is_no_room_any_more_once_all_of_it_came_it_is_not_released(
    both: list[Device], session: SessionId
) -> None:
    """What was to be prepared was done at once, or is of another head by then: the disk itself is asked."""
    laptop, desktop = both
    brought_it = Site.wait_synced

    async def filled(site: Site, *words: Any) -> None:
        await brought_it(site, *words)
        desktop.limits = replace(desktop.limits, free_bytes_min=2**60)

    async def go() -> Moved:
        async with house(both) as home:
            return (await home.sites["laptop"].transfer(session, "desktop"))[-1]

    with mock.patch.object(Site, "wait_synced", filled), mock.patch.object(Appearing, "ready", return_value=None):
        said = asyncio.run(go())
    assert said.status == 4 and "The disk of its files there has no room for it" in said.sentence, said
    assert sessions.view(laptop.store, laptop.me, session).owner == laptop.me.id


def test_what_cannot_be_prepared_there_is_not_released(both: list[Device], session: SessionId) -> None:
    laptop, desktop = both

    async def go() -> Moved:
        async with house(both) as home:
            said = (await home.sites["laptop"].transfer(session, "desktop"))[-1]
            await until(lambda: not home.sites["desktop"].handoffs.turns.goings)
            return said

    with full():
        said = asyncio.run(go())
    assert said.over and said.status == 4, said
    assert "Its files cannot appear there: The system said: No space left on device." in said.sentence
    assert sessions.view(laptop.store, laptop.me, session).owner == laptop.me.id
    assert asyncio.run(go()).status == 0, "it could, had there been room"
    assert (folder(desktop, session) / "one").read_text() == "newer\n"


def test_none_appear_under_a_session_that_its_person_had_go_on_while_they_were_prepared(
    both: list[Device], session: SessionId
) -> None:
    laptop, desktop = both
    by_handoff(laptop, desktop, session)
    transfer = TransferId(b"t" * 16)
    with going_on(desktop, session) as run:
        where = run.workspace.folder
        (where / "one").write_text("written by the session\n")
        assert handoff_steps.bring(desktop.store, desktop.me, transfer, session, "repo") == (None, False)
        assert folder(desktop, session) == where
        assert handoff_steps.bring(desktop.store, desktop.me, transfer, session, "repo") == (None, False)
    assert (where / "one").read_text() == "written by the session\n"


def test_an_answer_has_it_go_on_where_its_files_are_by_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been away since it last ran here in a folder that its person named, and came back into another."""

    async def go(workers: Workers, session: SessionId, made: list[Process]) -> None:
        going, begun = workers.going(session), list[str | None]()
        going.folder = tmp_path
        made[0].ends(pair.Over(end="waiting", status=3, effect="bash", sentence="It waits.", ways=()))
        await until(lambda: going.worker is None and not going.turn.locked())
        going.ask = live.Question(id="1.x", pages=(), shown=bytes(32), always="")
        say = Process.say

        def heard(self: Process, message: Any) -> None:
            if isinstance(message, pair.Start):
                begun.append(message.folder)
            say(self, message)

        monkeypatch.setattr(Process, "say", heard)
        assert (await RunVerbs(workers).answer_here(session, "1.x", bytes(32), "no", "", "alice")).counted
        assert begun == [None]

    tried(go, tmp_path)


def test_one_that_comes_just_as_it_is_begun_is_not_begun_before_its_files(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, _desktop = both
    looked = opening._files_here

    def comes(store: Store, me: Identity, session: SessionId) -> tuple[str, ...]:
        said = looked(store, me, session)
        files_due.note(store, session)
        return said

    with monkeypatch.context() as patched:
        patched.setattr(opening, "_files_here", comes)
        with pytest.raises(RefusedError, match="its files appear first"), going_on(laptop, session):
            pytest.fail("it went on in a folder as it was before")
    with going_on(laptop, session) as run:
        assert run.workspace.folder == laptop.repo
