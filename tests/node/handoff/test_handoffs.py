"""Sessions handed from daemon to daemon: done, refused, given up, asked for from a third; cut off at every stage."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, Site, house, unasked, until
from tests.node.two import Device, brought, waits_for_a_yes
from tests.workspace.lab import git

from hhd.base.errors import Exit, RefusedError
from hhd.node import here, sessions
from hhd.node.findings import Finding, remember
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import asked as handoff_asked
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff import turns as handoff_turns
from hhd.node.handoff import wishes as handoff_wishes
from hhd.node.sync.wishes import Wishes
from hhd.store.errors import FullStoreError
from hhd_protocol.handoff import Act, Stage, Told
from hhd_protocol.ids import DeviceId, PageId, SessionId

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, says(text("Done."))]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, SCRIPT, "laptop", "desktop", "tower", again=0.2, look=0.05, reply=60.0) as made:
        yield made


@pytest.fixture
def asking(three: list[Device]) -> SessionId:
    """A session on the laptop that waits for a yes to its command, not begun."""
    return waits_for_a_yes(three[0])


def owner(device: Device, session: SessionId) -> str:
    view = sessions.view(device.store, device.me, session)
    assert view.owner is not None
    return view.owner.hex()


def stages(device: Device, session: SessionId) -> list[str]:
    return [one.stage for one in device.control.transfers() if one.session == session.hex()]


def test_a_session_goes_there_and_back_and_its_command_runs_once_where_it_lands(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three

    async def go() -> None:
        async with house(three) as home:
            moved = await home.sites["laptop"].transfer(asking, "desktop")
            assert set(home.sites["laptop"].looked) == {asking}, "its folder was captured before"
            assert [one.stage for one in moved] == (
                ["offered", "admitted", "staged", "ready", "released", "acknowledged"]
            )
            last = moved[-1]
            assert last.over and last.status == 0 and "desktop has it" in last.ownership and "whole" not in last.way
            await until(lambda: asking in home.sites["desktop"].started)
            folder = home.sites["desktop"].folder(asking)
            assert (folder / "notes").read_text() == "of the laptop\n"
            assert re.fullmatch(r"repo-[0-9a-f]{12}", folder.name)
            needs = handoff_admission.needs_of(desktop.store, asking, desktop.main(asking), None)
            assert needs.folder == "repo", "or the name grows with each device that it comes to"
            assert owner(laptop, asking) == owner(desktop, asking) == desktop.me.id.hex()
            await until(lambda: stages(desktop, asking) == ["cleaned"] == stages(laptop, asking))
            back = await home.sites["desktop"].transfer(asking, "laptop")
            assert back[-1].status == 0
            assert home.sites["laptop"].told[-1].sentence == "It runs on desktop now."
            await until(lambda: asking in home.sites["laptop"].started)

    asyncio.run(go())
    assert not (laptop.repo / "runs").exists()
    assert not sessions.view(laptop.store, laptop.me, asking).uncertain
    laptop.rules = {"allow": ["bash"]}
    laptop.go_here(asking)
    assert (laptop.repo / "runs").read_text() == "x\n"


def test_a_session_that_is_kept_back_from_a_device_is_not_handed_to_it_and_the_way_out_lets_it_go(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, tower = three
    brought(laptop, tower, asking)
    wishes = Wishes(laptop.me.id)
    wishes.follow(laptop.store, asking, desktop.me.id, False)
    found = Finding(path=b"notes", position=0, piece=0, line=1, kind="a key", content=PageId(bytes(32)))

    async def go() -> None:
        async with house(three) as home:
            site, third = home.sites["laptop"], home.sites["tower"]
            way = f"nothing was changed. To let it go there: hhd follow {asking.hex()[:12]} desktop"
            with pytest.raises(RefusedError, match=f"is not to go to desktop; {way}"):
                await site.transfer(asking, "desktop")
            with pytest.raises(RefusedError, match=way):
                await site.transfer(asking, "desktop", dry_run=True)
            assert "not to go to desktop" in (await third.transfer(asking, "desktop"))[-1].sentence
            assert (await site.transfer(asking, "tower", dry_run=True))[-1].status == 0
            remember(laptop.store, asking, [found])
            with pytest.raises(RefusedError, match="looks like a credential, and was not said to go to tower"):
                await site.transfer(asking, "tower")
            assert stages(laptop, asking) == [] and site.soft == [], "it was never paused"
            wishes.follow(laptop.store, asking, desktop.me.id, True)
            assert (await site.transfer(asking, "desktop", dry_run=True))[-1].status == 0
            assert (await site.transfer(asking, "desktop"))[-1].status == 0

    asyncio.run(go())


def test_it_is_asked_for_at_the_target_and_at_a_third_device(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, tower = three
    brought(laptop, desktop, asking)
    brought(laptop, tower, asking)

    async def go() -> None:
        async with house(three) as home:
            home.cut("laptop", "desktop")
            with pytest.raises(RefusedError, match=r"laptop has session .* not connected.* hhd takeover"):
                await home.sites["desktop"].transfer(asking, "here")
            await home.link("laptop", "desktop")
            await until(lambda: home.sites["desktop"].link(laptop.me.id) is not None)
            moved = await home.sites["desktop"].transfer(asking, "here")
            assert moved[-1].over and moved[-1].status == 0
            await until(lambda: asking in home.sites["desktop"].started)
            await until(lambda: stages(desktop, asking) == ["cleaned"])

            with tower.store.transaction():
                for one in desktop.store.statements.all(asking):
                    if type(one.body).__name__ == "ReleaseBody":
                        tower.store.statements.add(asking, one.raw)
            moved = await home.sites["tower"].transfer(asking, "laptop")
            assert moved[-1].over and moved[-1].status == 0, moved
            assert "arrived on laptop" in moved[-1].continuity and moved[-1].ownership == "laptop has it"
            await until(lambda: asking in home.sites["laptop"].started)

    asyncio.run(go())
    assert owner(laptop, asking) == laptop.me.id.hex()


def test_who_asked_from_a_third_device_and_hears_no_more_of_it_is_told_that_it_is_uncertain(
    three: list[Device], asking: SessionId
) -> None:
    laptop, _, tower = three
    brought(laptop, tower, asking)
    told, heard = handoff_asked.Askings.told, []

    def until_released(self: handoff_asked.Askings, peer: DeviceId, message: Told) -> None:
        if "released" not in heard:
            heard.append(message.stage)
            told(self, peer, message)

    async def go() -> None:
        async with house(three) as home:
            moved = await home.sites["tower"].transfer(asking, "desktop")
            assert [one.over for one in moved] == [False] * (len(moved) - 1) + [True]
            assert moved[-1].status == Exit.UNCERTAIN and "released to" in moved[-1].ownership
            assert "hhd show" in moved[-1].way

    with (
        mock.patch.object(handoff_wishes, "REPLY_SECONDS", 0.2),
        mock.patch.object(handoff_asked.Askings, "told", until_released),
    ):
        asyncio.run(go())
    assert heard[-1] == "released"


@pytest.mark.parametrize(
    ("what", "words"),
    [("room", "room"), ("git", "install it"), ("model", "Keys do not travel"), ("walls", "behind walls")],
)
def test_what_cannot_run_there_is_refused_before_anything_is_touched_and_says_what_to_do(
    three: list[Device], asking: SessionId, what: str, words: str
) -> None:
    laptop, desktop, _ = three
    before = laptop.main(asking)
    refusals = {
        "room": FullStoreError("There is no room left for it; free some."),
        "git": RefusedError("It needs git, which is not on this device; install it."),
        "model": RefusedError("No model can be asked on this device: no key. Keys do not travel with a session."),
        "walls": RefusedError("Its commands may only run behind walls on this device, and there is no bwrap."),
    }

    async def go() -> None:
        async with house(three) as home:
            with mock.patch.object(handoff_steps, "fit", side_effect=refusals[what]):
                moved = await home.sites["laptop"].transfer(asking, "desktop")
                assert moved[-1].over and moved[-1].status == 3 and words in moved[-1].sentence
                assert moved[-1].continuity == "nothing was changed"
                with pytest.raises(RefusedError, match=words):
                    await home.sites["laptop"].transfer(asking, "desktop", dry_run=True)
            (fit,) = await home.sites["laptop"].transfer(asking, "desktop", dry_run=True)
            assert fit.over and fit.status == 0 and "could go to desktop" in fit.sentence
            assert home.sites["laptop"].soft == [], "it was never paused"

    asyncio.run(go())
    assert laptop.main(asking) == before and owner(laptop, asking) == laptop.me.id.hex()
    assert desktop.store.sessions() == []


@pytest.mark.parametrize("how", ["leads nowhere", "bisected"])
def test_files_that_cannot_be_captured_are_said_before_it_moves_and_what_to_do(
    three: list[Device], asking: SessionId, how: str, tmp_path: Path
) -> None:
    laptop, desktop, _ = three
    before = laptop.main(asking)
    if how == "leads nowhere":
        (laptop.repo / ".git").write_text("gitdir: /nowhere/at/all\n")
        words, mended = "does not lead to a repository", (laptop.repo / ".git").unlink
    else:
        git(laptop.repo, "init", "-q")
        git(laptop.repo, "commit", "-q", "--allow-empty", "-m", "start")
        git(laptop.repo, "bisect", "start")
        words, mended = "git bisect reset", lambda: git(laptop.repo, "bisect", "reset")

    async def go() -> None:
        async with house(three) as home:
            source = home.sites["laptop"]
            for dry_run in (False, True):
                with pytest.raises(RefusedError, match=words) as refused:
                    await source.transfer(asking, "desktop", dry_run=dry_run)
                assert f"hhd workspace map {asking.hex()[:12]} DIR" in str(refused.value)
            with pytest.raises(RefusedError, match=words):
                laptop.control.insist_on_release(asking.hex(), "desktop")
            assert source.soft == [] and laptop.main(asking) == before and stages(laptop, asking) == []
            assert owner(laptop, asking) == laptop.me.id.hex() and desktop.store.sessions() == []
            mended()
            laptop.control.insist_on_release(asking.hex(), "desktop")
            assert (await source.transfer(asking, "desktop", dry_run=True))[-1].status == 0
            assert (await source.transfer(asking, "desktop"))[-1].status == 0

    asyncio.run(go())
    assert owner(laptop, asking) == desktop.me.id.hex()


@pytest.mark.parametrize("folder", ["none", "gone"])
def test_a_session_without_a_folder_goes_as_it_is(three: list[Device], asking: SessionId, folder: str) -> None:
    laptop = three[0]
    noted = here.noted(laptop.store, asking)
    assert noted is not None
    where = None if folder == "none" else laptop.repo / "gone"
    here.note(laptop.store, asking, here.Note(place=noted.place, folder=where))

    async def go() -> None:
        async with house(three) as home:
            assert (await home.sites["laptop"].transfer(asking, "desktop"))[-1].status == 0

    asyncio.run(go())
    assert owner(laptop, asking) == three[1].me.id.hex()


def test_a_program_that_does_not_load_there_is_no_pause_too_much_it_is_given_up_and_goes_on_here(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three

    async def go() -> None:
        async with house(three) as home:
            laptop_, desktop_ = home.sites["laptop"], home.sites["desktop"]
            laptop_.runs.add(asking)
            desktop_.does_not_load = "The session's memory is not the same once it is loaded here."
            moved = await laptop_.transfer(asking, "desktop")
            assert moved[-1].stage == "aborted" and moved[-1].status == 4, moved
            await until(lambda: laptop_.started == [asking])
            await until(lambda: asking in desktop_.unreadied)
            assert desktop_.started == []
            desktop_.does_not_load = None
            assert (await laptop_.transfer(asking, "desktop"))[-1].status == 0
            assert asking in desktop_.readied

    asyncio.run(go())
    assert owner(laptop, asking) == desktop.me.id.hex()


def test_who_waits_hears_that_it_runs_there_or_after_some_time_that_nobody_says_so(
    three: list[Device], asking: SessionId
) -> None:
    async def go() -> None:
        async with house(three) as home:
            laptop, desktop = home.sites["laptop"], home.sites["desktop"]
            begins = asyncio.Event()

            async def begun(site: Site, session: SessionId) -> None:
                if site is desktop:
                    await begins.wait()

            home.on_start = begun
            moving = asyncio.create_task(laptop.transfer(asking, "desktop"))
            await until(lambda: stages(three[0], asking) == ["cleaned"] and asking in desktop.started)
            assert not moving.done(), "it is taken, and does not run yet"
            begins.set()
            assert (await moving)[-1].status == 0 and (await moving)[-1].notes == ()
            begins.clear()
            await until(lambda: stages(three[1], asking) == ["cleaned"])
            home.on_start = lambda site, session: begins.wait()
            with mock.patch.object(handoff_turns, "BEGIN_SECONDS", 0.05):
                back = await desktop.transfer(asking, "laptop")
            assert back[-1].over and back[-1].status == 0
            assert back[-1].notes == ("laptop has not said yet that it runs.",)
            begins.set()

    asyncio.run(go())


def test_what_stands_in_the_way_is_said_before_anything_begins(three: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with house(three) as home:
            laptop = home.sites["laptop"]
            with pytest.raises(RefusedError, match="is there already"):
                await laptop.transfer(asking, "here")
            with pytest.raises(RefusedError, match="no device"):
                await laptop.transfer(asking, "nobody")
            home.cut("laptop", "desktop")
            with pytest.raises(RefusedError, match=r"not connected now.*--to FILE"):
                await laptop.transfer(asking, "desktop")

    asyncio.run(go())
    assert three[0].control.transfers() == []


def test_a_running_effect_is_waited_for_and_past_the_deadline_it_goes_on_here(
    three: list[Device], asking: SessionId
) -> None:
    laptop, _, _ = three

    async def go() -> None:
        async with house(three) as home:
            site = home.sites["laptop"]
            site.runs.add(asking)
            site.effect_ends.clear()
            waiting = asyncio.create_task(site.transfer(asking, "desktop", deadline_ms=900_000))
            await until(lambda: site.soft == [True])
            (going,) = site.handoffs.turns.goings.values()
            assert 100 < going.until - time.monotonic() <= 900
            going.until = time.monotonic()
            moved = await waiting
            assert moved[-1].status == 4 and "time was over" in moved[-1].sentence
            assert moved[-1].ownership == "this device kept it, and goes on with it"
            site.effect_ends.set()
            await until(lambda: site.started == [asking])
            moving = asyncio.create_task(site.transfer(asking, "desktop", cancel_running=True))
            assert (await moving)[-1].status == 0
            assert site.soft[0] is True and site.soft[-1] is False

    asyncio.run(go())
    assert owner(laptop, asking) == three[1].me.id.hex()


def test_what_was_given_up_does_not_begin_the_session_again_under_the_next_handoff(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three

    async def go() -> None:
        async with house(three) as home:
            site = home.sites["laptop"]
            site.runs.add(asking)
            site.effect_ends.clear()
            waiting = asyncio.create_task(site.transfer(asking, "desktop", deadline_ms=60_000))
            await until(lambda: site.soft == [True])
            (given_up,) = site.handoffs.turns.goings.values()
            given_up.until = time.monotonic()
            assert (await waiting)[-1].status == 4
            await until(lambda: site.soft == [True, True])
            resuming = given_up.busy[Act.RESUME]

            async def halt(session: SessionId, *, soft: bool = False) -> None:
                """The effect is cancelled: who waited for its end learns of it first."""
                assert not resuming.done() and not soft
                site.effect_ends.set()
                await resuming

            with mock.patch.object(site, "halt", halt):
                assert (await site.transfer(asking, "desktop", cancel_running=True))[-1].status == 0
            assert resuming.done() and site.started == []

    asyncio.run(go())
    assert owner(laptop, asking) == desktop.me.id.hex()


def test_who_leaves_before_the_release_gives_it_up_and_after_it_only_leaves(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three

    async def go() -> None:
        async with house(three) as home:
            site = home.sites["laptop"]
            telling = site.handoffs.transfer(asking.hex(), "desktop")
            assert (await anext(telling)).stage == "offered"
            await telling.aclose()
            await until(lambda: stages(laptop, asking) == ["aborted"] and not site.handoffs.turns.goings)
            await until(lambda: stages(desktop, asking) in ([], ["aborted"]))
            telling = site.handoffs.transfer(asking.hex(), "desktop")
            async for moved in telling:
                if moved.stage == "released":
                    break
            await telling.aclose()
            await until(lambda: stages(laptop, asking)[0] == "cleaned")

    asyncio.run(go())
    assert owner(desktop, asking) == desktop.me.id.hex()


def test_a_release_whose_target_is_gone_ends_uncertain_and_says_the_way_which_works(
    three: list[Device], asking: SessionId
) -> None:
    laptop, _desktop, _ = three

    async def go() -> None:
        async with house(three) as home:
            site = home.sites["laptop"]
            with (
                mock.patch.object(handoff_wishes, "REPLY_SECONDS", 0.3),
                mock.patch.object(handoff_steps, "take", side_effect=RefusedError("no")),
            ):
                moved = await site.transfer(asking, "desktop")
                assert moved[-1].status == 5 and "hhd takeover" in moved[-1].way
                await home.kill("desktop")

    asyncio.run(go())
    shown = laptop.control.takeable(asking.hex())
    assert laptop.control.take_over(shown, "the desktop never took it").token == 3
    assert laptop.control.transfers()[0].stage == "superseded"


CUTS = [stage for stage in Stage if stage not in (Stage.NONE, Stage.ABORTED, Stage.SUPERSEDED)]
HOW = ["source killed", "target killed", "link cut"]
ALWAYS = [(Stage.STAGED, "link cut"), (Stage.READY, "target killed"), (Stage.RELEASED, "source killed")]
ALL = [
    pytest.param(stage, how, id=f"{stage.value}, {how}", marks=() if (stage, how) in ALWAYS else (pytest.mark.long,))
    for stage in CUTS
    for how in HOW
]
"""The whole table in `make long`, the stages around the release always."""


@pytest.mark.parametrize(("stage", "how"), ALL)
def test_cut_off_at_any_stage_the_session_goes_on_at_exactly_one_place(
    three: list[Device], asking: SessionId, stage: Stage, how: str
) -> None:
    """Walks the table; nobody helps, and the transcript is that of an uncut run."""
    laptop, desktop, _ = three
    before = laptop.transcript(asking)

    async def go() -> None:
        async with house(three) as home:
            reached = asyncio.Event()
            for site in home.sites.values():
                _reports(site, stage, reached)
            telling = home.sites["laptop"].handoffs.transfer(asking.hex(), "desktop")
            follow = asyncio.create_task(_followed(telling))
            await asyncio.wait([asyncio.create_task(reached.wait()), follow], return_when=asyncio.FIRST_COMPLETED)
            if how == "link cut":
                home.cut("laptop", "desktop")
                await asyncio.sleep(0)
                await home.link("laptop", "desktop")
            else:
                name = "laptop" if how == "source killed" else "desktop"
                await home.kill(name)
                await home.up(name)
            await until(lambda: _over(laptop, asking) and _over(desktop, asking))
            follow.cancel()
            holder = "desktop" if owner(laptop, asking) == desktop.me.id.hex() else "laptop"
            if holder == "desktop":
                await until(lambda: _goes_on(home.sites["desktop"], asking))
                assert owner(desktop, asking) == desktop.me.id.hex()

    asyncio.run(go())
    holder = desktop if owner(laptop, asking) == desktop.me.id.hex() else laptop
    other = laptop if holder is desktop else desktop
    assert not sessions.view(holder.store, holder.me, asking).uncertain
    assert holder.transcript(asking) == before
    if asking in other.store.sessions():
        with pytest.raises(RefusedError):
            other.go_here(asking)
    if stage in (Stage.RELEASED, Stage.TAKEN, Stage.ACKNOWLEDGED, Stage.CLEANED):
        assert holder is desktop, "nothing is undone after the release"
    holder.rules = {"allow": ["bash"]}
    holder.go_here(asking)
    ran = [one for one in (laptop.repo / "runs", *_files(holder, asking)) if one.exists()]
    assert [one.read_text() for one in ran] == ["x\n"], "it runs once, where it landed"


def _files(holder: Device, session: SessionId) -> list[Path]:
    from hhd.node import here

    noted = here.noted(holder.store, session)
    assert noted is not None and noted.folder is not None
    found = noted.folder / "runs"
    return [] if found.parent == holder.repo and holder.repo.parent.name == "laptop" else [found]


def _reports(site: Site, stage: Stage, reached: asyncio.Event) -> None:
    """Set `reached` as soon as a handoff at `site` came to `stage`, before anything more is done for it."""
    real = site.handoffs.turns._now

    def now(going: object, after: object) -> None:
        real(going, after)  # type: ignore[arg-type]
        if after.stage is stage:  # type: ignore[attr-defined]
            reached.set()

    site.handoffs.turns._now = now  # type: ignore[method-assign]


async def _followed(telling: object) -> None:
    async for _ in telling:  # type: ignore[attr-defined]
        pass


def _over(device: Device, session: SessionId) -> bool:
    return all(one.over for one in device.control.transfers() if one.session == session.hex())


def _goes_on(site: Site, session: SessionId) -> bool:
    with site.opened() as control:
        (record,) = [one for one in control.transfers() if one.session == session.hex()]
        return handoff_steps.is_opened(control.store, bytes.fromhex(record.transfer))  # type: ignore[arg-type]


def test_the_house_of_these_tests_hands_nothing_on_by_itself(three: list[Device], asking: SessionId) -> None:
    async def go(home: House) -> None:
        await asyncio.sleep(0)

    async def run() -> None:
        async with house(three) as home:
            await go(home)
            assert all(not site.started for site in home.sites.values())

    asyncio.run(run())
    assert owner(three[0], asking) == three[0].me.id.hex()


def test_what_a_target_could_not_do_as_it_was_reaches_who_typed_it_and_who_looks_later_on_both_sides(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    stayed = "Stayed where it came from: inner (a repository of its own)."
    elsewhere = mock.Mock(
        folder="/home/alice/hhd/repo-2", instead="your folder has changes of its own", notes=(stayed,)
    )
    note = "Its files are in /home/alice/hhd/repo-2: your folder has changes of its own"

    async def go() -> None:
        async with house(three) as home:
            with mock.patch.object(handoff_steps, "bring", return_value=(elsewhere, True)):
                moved = await home.sites["laptop"].transfer(asking, "desktop")
            assert moved[-1].over and moved[-1].notes == (note, stayed)
            for device, other in ((laptop, desktop), (desktop, laptop)):
                await until(lambda device=device: device.control.transfers()[0].notes == (note, stayed))  # type: ignore[misc]
                shown = device.control.show(asking.hex())
                assert shown.notes == (note, stayed) and shown.handed is not None
                assert shown.handed.id == other.me.text
            await until(lambda: stages(desktop, asking) == ["cleaned"] == stages(laptop, asking))
            with mock.patch.object(handoff_steps, "bring", return_value=(elsewhere, True)):
                moved = await home.sites["laptop"].transfer(asking, "here")  # By the desktop, which has it.
            assert moved[-1].over and moved[-1].notes == (note, stayed), "who asked for it is another device"
            await until(lambda: stages(desktop, asking)[0] == "cleaned" == stages(laptop, asking)[0])
            moved = await home.sites["laptop"].transfer(asking, "desktop")
            assert moved[-1].status == 0 and moved[-1].notes == ()
            for device in (laptop, desktop):
                await until(lambda device=device: device.control.show(asking.hex()).notes == ())  # type: ignore[misc]
                assert [one.notes for one in device.control.transfers()] == [(), (note, stayed), (note, stayed)]

    asyncio.run(go())
