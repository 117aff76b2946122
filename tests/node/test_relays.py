"""Sessions of one device at terminals of another: shown live, spoken to, each byte and word once, wherever it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.relayed import Desk, Home, home, until
from tests.node.test_run import GLOB
from tests.node.two import Device, devices

from hhd.base.errors import RefusedError
from hhd.node import handoff_admission, handoff_again
from hhd.node.ended import End
from hhd_protocol import live
from hhd_protocol.ids import SessionId

pytestmark = needs_agent

COUNT = says(call("bash", command="echo one"))
SCRIPT = [GLOB, COUNT, says(text("Done."))]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Device]]:
    with (
        mock.patch.object(handoff_again, "AGAIN_SECONDS", 0.2),
        mock.patch.object(handoff_again, "LOOK_SECONDS", 0.05),
        mock.patch.object(handoff_admission, "_of_model", lambda *_: []),
        devices(tmp_path, SCRIPT, "desktop", "laptop", rules={"allow": []}) as made,
    ):
        yield made


@pytest.fixture
def asking(two: list[Device]) -> SessionId:
    """A session on the desktop that waits for a yes to its command."""
    session = two[0].create()
    assert two[0].go_here(session).end is End.WAITING
    return session


async def up(house: Home, session: SessionId) -> tuple[Desk, Desk]:
    """The session is known on both devices, and runs on the desktop."""
    desktop, laptop = house.desk("desktop"), house.desk("laptop")
    await desktop.bring(session, "laptop")
    await desktop.start(session)
    return desktop, laptop


def test_what_happens_there_is_shown_here_and_each_byte_once(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            whole = two[0].transcript(asking)
            first, late = laptop.terminal(asking), laptop.terminal(asking.hex()[:8], len(whole) - 3, by="pts/2")
            local = desktop.terminal(asking, by="pts/9")
            for one in (first, late, local):
                await one.until(live.State, lambda state: state.name == "running")
            assert first.transcript == local.transcript == whole and late.transcript == whole[-3:]
            assert first.notices == ["It runs on desktop."] and local.notices == []
            assert first.of(live.Attached)[0].by == "laptop pts/1"
            desktop.tells(asking, live.Words(text="I will"))
            desktop.tells(asking, live.Emitted(position=len(whole) - 2, piece=whole[-2:] + b"more"))
            for one in (first, late, local):
                await one.until(live.Words, lambda words: words.text == "I will")
                await until(lambda one=one: one.transcript.endswith(b"more"))  # type: ignore[misc]
            assert first.transcript == whole + b"more" and late.transcript == whole[-3:] + b"more"

    asyncio.run(go())


def test_what_is_said_here_is_heard_there_and_others_see_by_whom(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            desktop, laptop = await up(house, asking)
            here, there = laptop.terminal(asking), desktop.terminal(asking, by="pts/9")
            await here.until(live.State)
            await there.until(live.State)
            heard = await laptop.verbs.say(asking.hex(), "not that file", "laptop pts/1")
            assert (heard.session, heard.how) == (asking.hex(), "steering")
            assert [one.text for one in desktop.process(asking).said] == ["not that file"]
            said = await there.until(live.Said)
            assert (said.by, said.text) == ("laptop pts/1", "not that file")
            await laptop.verbs.keys(asking.hex(), "typed", "laptop pts/1")
            assert (await there.until(live.Keys)).line == "typed"
            rested = await laptop.verbs.pause(asking.hex())
            assert rested.state == "paused" and desktop.running() == {}
            assert (await here.until(live.State, lambda one: one.name == "paused")).sentence == "It is paused."
            assert (await laptop.verbs.go_on(asking.hex())).fresh
            assert desktop.started == [asking, asking] and laptop.started == [], "resumed where it is"

    asyncio.run(go())


def test_of_one_out_of_reach_it_is_said_what_is_known_and_how_to_go_on(two: list[Device], asking: SessionId) -> None:
    async def go() -> None:
        async with home(two) as house:
            _, laptop = await up(house, asking)
            house.cut("laptop", "desktop")
            way = f"takeover {asking.hex()[:12]}"
            told = rf"desktop's to run, which is not connected now; nothing was changed\..* old\..* {way}"
            for asked in (
                laptop.verbs.say(asking.hex(), "hello"),
                laptop.verbs.pause(asking.hex()),
                laptop.verbs.go_on(asking.hex()),
            ):
                with pytest.raises(RefusedError, match=told):
                    await asked
            terminal = laptop.terminal(asking)
            await until(lambda: terminal.over)
            assert isinstance(terminal.error, RefusedError) and "takeover" in str(terminal.error)
            assert laptop.started == []

    asyncio.run(go())
