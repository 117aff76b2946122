"""What a target prepares of a session's files is only switched to in the pause; given up or killed, nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, Site, house, unasked, until
from tests.node.two import Device, brought
from tests.workspace.lab import repository

from hhd.base import log
from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import appearing, bringing, here, recapture, sessions, should_run
from hhd.node.answers.handoff import Moved
from hhd.node.ended import End
from hhd.node.handoff import rehearsal as handoff_rehearsal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import Going
from hhd.node.handoff.rehearsal import Rehearsal
from hhd.node.handoff.turns import Turns
from hhd.node.workbench import Workbench
from hhd.store.store import Store
from hhd.workspace.ahead import Ahead
from hhd.workspace.pending import Place, pending_folder
from hhd.workspace.work import Work
from hhd.workspace.written import Written
from hhd_protocol.handoff import Rehearse, Side, Stage
from hhd_protocol.ids import CheckpointId, SessionId

pytestmark = needs_agent


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Device]]:
    script = [GLOB, says(call("bash", command="make"))]
    with unasked(tmp_path, script, "laptop", "desktop") as made:
        yield made


@pytest.fixture
def session(both: list[Device]) -> SessionId:
    """A session of the laptop whose files are at the desktop too, as they were before two of them changed."""
    laptop, desktop = both
    laptop.repo.rmdir()
    repository(laptop.repo)
    made = laptop.create()
    assert laptop.go_here(made).end is End.WAITING
    brought(laptop, desktop, made)
    assert bringing.bring(desktop.store, desktop.me, made, called="repo") is not None
    (laptop.repo / "one").write_text("of the laptop\n")
    (laptop.repo / "new").write_text("of the laptop\n")
    recapture.recapture(Workbench(store=laptop.store, me=laptop.me), made)
    brought(laptop, desktop, made)
    return made


@dataclass(eq=False)
class Pausing(Site):
    """A device that does `first` when its session is to rest."""

    first: Callable[[], object] = lambda: None

    async def halt(self, session: SessionId, *, soft: bool = False) -> None:
        self.first()
        await super().halt(session, soft=soft)


def whole(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every name below it, `.git` too, with mode, content and the time of a file."""
    return {
        str(one): (one.lstat().st_mode, one.is_file() and (one.read_bytes(), one.lstat().st_mtime_ns))
        for one in sorted(folder.parent.rglob("*"))
    }


def moved(both: list[Device], session: SessionId, first: Callable[[Path], object]) -> tuple[Path, Moved]:
    """Hand it to the desktop, where it works in the folder returned; the last that is said."""

    async def go() -> tuple[Path, Moved]:
        home = House(both)
        home.made = Pausing
        try:
            for name in home.devices:
                await home.up(name)
            source, target = home.sites["laptop"], home.sites["desktop"]
            there = target.folder(session)
            assert isinstance(source, Pausing)
            source.first = lambda: first(there)
            steps = [step async for step in source.handoffs.transfer(session.hex(), "desktop")]
            await until(lambda: not home.sites["desktop"].handoffs.turns.goings)
            return there, steps[-1]
        finally:
            for name in list(home.sites):
                await home.kill(name)

    return asyncio.run(go())


def stages(there: Path) -> list[Path]:
    return list((there / ".git").glob(".hhd-*"))


def test_in_the_pause_there_is_only_the_switch(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = []
    appear = Ahead.appear
    monkeypatch.setattr(Ahead, "appear", lambda *words: (did.append("switch"), appear(*words))[1])
    monkeypatch.setattr(appearing, "materialise", lambda *_, **__: pytest.fail("all of it was done in the pause"))
    there, said = moved(both, session, lambda there: did.append(f"{len(stages(there))} prepared"))
    assert said.status == 0 and did == ["1 prepared", "switch"]
    assert (there / "one").read_text() == (there / "new").read_text() == "of the laptop\n"
    assert not stages(there) and not list(pending_folder().glob("*.sealed"))


@pytest.mark.parametrize("room", [True, False])
def test_that_it_should_run_is_on_disk_with_where_its_files_are_or_is_said_to_be_missing(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch, room: bool
) -> None:
    """Its files appeared either way: that too many run already is for who begins it to say."""
    started = list[tuple[bool, int, bool]]()

    async def start(self: Site, session: SessionId, *_: Any, noted: bool = False) -> bool:
        with self.opened() as control:
            place, notes = here.noted(control.store, session), should_run.noted(control.store)
        assert place is not None and place.folder is not None
        started.append((noted, len(notes), (place.folder / "new").exists()))
        return True

    monkeypatch.setattr(Site, "start", start)
    if not room:
        monkeypatch.setattr(should_run, "NOTES_MAX", 0)
    _, said = moved(both, session, lambda _: None)
    assert said.status == 0 and started == [(room, int(room), True)]
    (kept,) = should_run.noted(both[1].store) or [None]
    assert kept == (should_run.Note(session, None, None) if room else None)


def test_nothing_of_what_is_being_switched_to_is_taken_away_by_a_daemon_that_ends(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the stage went, with all that had not been put yet, and the session went on beside its old files."""
    make, drop, ended = Work.make, Rehearsal.drop_files, list[Going]()
    loops: list[asyncio.AbstractEventLoop] = []

    def made(self: Work, place: Place) -> Written:
        for going in ended:  # As `Handoffs.stop` does.
            asyncio.run_coroutine_threadsafe(drop(rehearsals[0], going), loops[0]).result(240)
        return make(self, place)

    rehearsals: list[Rehearsal] = []
    waited = Rehearsal.wait_for_files

    async def wait(self: Rehearsal, going: Going) -> None:
        rehearsals.append(self), loops.append(asyncio.get_running_loop()), ended.append(going)
        await waited(self, going)
        assert going.readied is not None

    monkeypatch.setattr(Rehearsal, "wait_for_files", wait)
    monkeypatch.setattr(Work, "make", made)
    there, said = moved(both, session, lambda _: None)
    assert said.status == 0 and len(ended) == 1
    assert (there / "one").read_text() == (there / "new").read_text() == "of the laptop\n"
    assert not stages(there) and not list(pending_folder().glob("*.sealed"))


def test_who_asks_again_for_the_same_has_nothing_prepared_anew(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, ready, prepared = Rehearsal.ask, handoff_steps.ready, list[CheckpointId]()

    async def twice(self: Rehearsal, going: Going) -> None:
        await ask(self, going)
        await ask(self, going)

    def counted(store: Store, me: Identity, session: SessionId, head: CheckpointId, *more: Any) -> Any:
        prepared.append(head)
        return ready(store, me, session, head, *more)

    monkeypatch.setattr(Rehearsal, "ask", twice)
    monkeypatch.setattr(handoff_steps, "ready", counted)
    _, said = moved(both, session, lambda _: None)
    assert said.status == 0 and len(prepared) == 1


def test_who_asks_on_and_on_is_owed_few_answers_and_what_is_asked_for_is_done(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, begin, ready, say = Rehearsal.ask, Rehearsal.begin, handoff_steps.ready, Rehearsal._say
    gate, heard, owed = threading.Event(), list[CheckpointId](), list[int]()

    async def flood(self: Rehearsal, going: Going) -> None:
        assert going.staged is not None
        for _ in range(100):
            await self._ways.send(
                going.peer, Rehearse(transfer=going.transfer, session=going.session, head=going.staged)
            )
        await ask(self, going)

    def hears(self: Rehearsal, going: Going, head: CheckpointId, *, asked: bool) -> None:
        begin(self, going, head, asked=asked)
        heard.append(head)
        if len(heard) > 100:
            gate.set()

    async def says(self: Rehearsal, going: Going, *more: Any) -> None:
        owed.append(going.answers_owed)
        await say(self, going, *more)

    monkeypatch.setattr(Rehearsal, "ask", flood)
    monkeypatch.setattr(Rehearsal, "begin", hears)
    monkeypatch.setattr(Rehearsal, "_say", says)
    monkeypatch.setattr(handoff_steps, "ready", lambda *words: (gate.wait(240), ready(*words))[1])
    there, said = moved(both, session, lambda _: None)
    assert said.status == 0 and len(heard) > 100 and max(owed) == len(owed) == handoff_rehearsal.ANSWERS_MAX
    assert (there / "new").read_text() == "of the laptop\n" and not stages(there)


def test_the_release_does_not_wait_for_files_but_the_begin_does(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first checkout of a large repository takes longer than the source waits for it."""
    ready, gate, did = handoff_steps.ready, threading.Event(), list[str]()

    def slow(*words: Any) -> Any:
        assert gate.wait(240), "it is released meanwhile"
        did.append("prepared")
        return ready(*words)

    def stage(going: Going) -> None:
        if going.one.side is Side.SOURCE and going.one.stage is Stage.RELEASED:
            did.append("released")
            gate.set()

    now, appear = Turns._now, Ahead.appear
    monkeypatch.setattr(Turns, "_now", lambda self, going, after: (now(self, going, after), stage(going)))
    monkeypatch.setattr(Ahead, "appear", lambda *words: (did.append("switched"), appear(*words))[1])
    monkeypatch.setattr(handoff_steps, "ready", slow)
    monkeypatch.setattr(handoff_rehearsal, "ASK_SECONDS", 0.05)
    there, said = moved(both, session, lambda _: None)
    assert said.status == 0 and did == ["released", "prepared", "switched"]
    assert (there / "new").read_text() == "of the laptop\n" and not stages(there)


def test_a_folder_that_a_person_edited_is_left_alone_and_that_is_no_fault_of_hhd(
    both: list[Device], session: SessionId, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = here.noted(both[1].store, session)
    assert noted is not None and noted.folder is not None
    (noted.folder / "one").write_text("by hand\n")
    faults, notes = list[str](), list[str]()
    monkeypatch.setattr(log, "fault", lambda event, *_, **__: faults.append(event))
    monkeypatch.setattr(log, "note", lambda event, **_: notes.append(event))
    there, said = moved(both, session, lambda _: None)
    assert said.status == 0 and there == noted.folder and (there / "one").read_text() == "by hand\n"
    assert faults == [] and "handoff_folder_left_alone" in notes


@pytest.mark.parametrize("edited", [False, True])
def test_a_dry_run_says_that_the_files_will_not_be_in_a_folder_that_a_person_edited(
    both: list[Device], session: SessionId, edited: bool
) -> None:
    noted = here.noted(both[1].store, session)
    assert noted is not None and noted.folder is not None
    if edited:
        (noted.folder / "one").write_text("by hand\n")
    before = whole(noted.folder)

    async def go() -> tuple[Moved, Moved]:
        async with house(both) as home:
            (told,) = await home.sites["laptop"].transfer(session, "desktop", dry_run=True)
            assert whole(noted.folder) == before, "nothing was done there"
            return told, (await home.sites["laptop"].transfer(session, "desktop"))[-1]

    told, done = asyncio.run(go())
    elsewhere = [one for one in told.notes if "a new folder of hhd's" in one and str(noted.folder) in one]
    assert bool(elsewhere) is edited and (f"into {noted.folder}" in told.sentence) is not edited, told
    assert any(one.startswith("Its files are in ") for one in done.notes) is edited, "which is what came of it"


def test_given_up_after_that_the_folder_is_byte_for_byte_as_it_was(both: list[Device], session: SessionId) -> None:
    before, during = dict[str, tuple[object, ...]](), list[Path]()

    def refuse(there: Path) -> None:
        during.extend(stages(there))
        before.update({name: look for name, look in whole(there).items() if ".hhd-" not in name})
        raise RefusedError("It does not rest.")

    there, said = moved(both, session, refuse)
    assert said.status != 0 and len(during) == 1, "it was prepared, and given up"
    assert whole(there) == before and not list(pending_folder().glob("*.sealed"))


def test_after_a_kill_the_next_daemon_leaves_nothing_of_it(both: list[Device], session: SessionId) -> None:
    desktop = both[1]
    looked = bringing.look(desktop.store, desktop.me, session)
    assert looked is not None
    there = looked.folder
    before = whole(there)
    head = CheckpointId(sessions.view(desktop.store, desktop.me, session).main)  # type: ignore[arg-type]
    child = os.fork()
    if child == 0:
        with Store.open(desktop.store.folder, seed=desktop.me.seed, limits=desktop.limits) as store:
            bringing.ready(store, desktop.me, session, head, called="repo", looked=looked)
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]) and len(stages(there)) == 1, "it was prepared"

    async def start() -> None:
        home = House(both)
        try:
            await home.up("desktop")
            await until(lambda: not list(pending_folder().glob("*.sealed")))
        finally:
            await home.kill("desktop")

    asyncio.run(start())
    assert whole(there) == before
