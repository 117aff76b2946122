"""Handoffs between two devices whose daemons are killed and whose link is cut, several times in a row: none is lost.

The handoffs, their journals and the stores on disk are real; all else is near: both daemons are tasks of one process,
links are in memory, what sync does is one copy (`two.brought`), and no program runs. A kill ends a daemon's tasks
wherever they wait, not within a transaction, and loses no unsynced write. Five hundred between real daemons in
namespaces: `tests/net/test_transfer_many.py`; unsynced writes lost: `tests/sim/handoff`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.handoff.handing import House, house
from tests.node.two import Device, devices

from hhd.base.errors import UserError
from hhd.effects.sandbox import Sandbox
from hhd.node import sessions
from hhd.node.doors import Doors
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import again as handoff_again
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import wishes as handoff_wishes
from hhd_protocol.ids import SessionId

pytestmark = needs_agent

SESSIONS, ROUNDS, STUCK_SECONDS = 20, 6, 60
CALM_ROUNDS_MAX = 12
"""Without trouble, after those: on a slow machine it comes so early that hardly one arrives."""
NAMES = ("laptop", "desktop")
NO_WALLS = Sandbox(program=None, reason="not under test", network=True, hidden=())


def holder(made: dict[str, Device], session: SessionId) -> str:
    """The one device that may go on with `session`: asserts that there is exactly one."""
    may = []
    for name, device in made.items():
        if session in device.store.sessions() and Doors(device.store, device.me, session).may_append() is None:
            may.append(name)
    assert len(may) == 1, f"{session.hex()[:8]} may go on at {may}"
    return may[0]


TROUBLES = ["kill both", "cut", "kill laptop", "kill desktop"]


async def trouble(home: House, dice: random.Random, counts: Counter[str], first: str) -> None:
    """Kill daemons and cut the link, at random moments, for one round: `first`, and then whatever comes."""
    for number in range(dice.randrange(1, 4)):
        await asyncio.sleep(dice.random() * 0.6)
        what = first if number == 0 else dice.choice(["cut", *TROUBLES])
        counts[what] += 1
        if what == "cut":
            home.cut(*NAMES)
            await asyncio.sleep(dice.random() * 0.05)
            await home.link(*NAMES)
            continue
        gone = NAMES if what == "kill both" else (what.removeprefix("kill "),)
        for name in gone:
            await home.kill(name)
        for name in gone:
            await home.up(name)


async def hand_on(home: House, session: SessionId, source: str, target: str, counts: Counter[str]) -> None:
    site = home.sites.get(source)
    if site is None:
        counts["not begun"] += 1
        return
    try:
        async for moved in site.handoffs.transfer(session.hex(), target):
            if moved.over:
                counts[f"ended {moved.stage}"] += 1
    except (UserError, RuntimeError):
        counts["refused"] += 1


@pytest.mark.long
def test_struck_again_and_again_all_handoffs_arrive_or_are_undone(tmp_path: Path) -> None:
    dice, counts = random.Random(10), Counter[str]()
    with (
        mock.patch.object(handoff_again, "AGAIN_SECONDS", 1.0),
        mock.patch.object(handoff_again, "LOOK_SECONDS", 0.1),
        mock.patch.object(handoff_wishes, "REPLY_SECONDS", 5.0),
        mock.patch.object(handoff_admission, "_of_model", lambda *_: []),
        mock.patch.object(handoff_admission, "detect", lambda _: NO_WALLS),
        devices(tmp_path, [], *NAMES) as both,
    ):
        made = dict(zip(NAMES, both, strict=True))
        all_of_them = [made["laptop"].create(f"task {number}") for number in range(SESSIONS)]

        async def go() -> None:
            async with house(both) as home:
                for number in range(ROUNDS + CALM_ROUNDS_MAX):
                    if number >= ROUNDS and counts["arrived"] > SESSIONS * ROUNDS / 4:
                        break
                    counts["rounds"] += 1
                    before = {session: holder(made, session) for session in all_of_them}
                    others = {name: next(other for other in NAMES if other != name) for name in NAMES}
                    moving = [
                        asyncio.create_task(hand_on(home, session, at, others[at], counts))
                        for session, at in before.items()
                    ]
                    if number < ROUNDS:
                        await trouble(home, dice, counts, TROUBLES[number % len(TROUBLES)])
                    else:
                        await asyncio.gather(*moving, return_exceptions=True)
                    await _settled(home, made)
                    for task in moving:
                        task.cancel()
                    await asyncio.gather(*moving, return_exceptions=True)
                    await _settled(home, made)
                    for session, at in before.items():
                        counts["undone" if holder(made, session) == at else "arrived"] += 1

        asyncio.run(go())
        print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
        assert counts["arrived"] + counts["undone"] == SESSIONS * counts["rounds"]
        assert counts["arrived"] > SESSIONS * ROUNDS / 4 and all(counts[what] for what in TROUBLES)
        for session in all_of_them:
            views = [sessions.view(one.store, one.me, session) for one in both if session in one.store.sessions()]
            assert all(len(view.heads) == 1 and not view.refused for view in views), "nobody worked beside another"


async def _settled(home: House, made: dict[str, Device]) -> None:
    """Wait until nothing is under way."""
    stall, told = Stall(), ""
    while not _quiet(home, made):
        before, told = told, _told(home, made)
        why = stall.why(time.monotonic(), time.process_time(), came_further=told != before)
        assert not why, f"{why}: {told}"
        await asyncio.sleep(0.05)


@dataclass
class Stall:
    """Whether what comes no further stands still, or has no turn on a machine that is busy with others: who stands
    still uses no processor time at all, or as much as it gets and to no end."""

    at: tuple[float, float] | None = None

    def why(self, now: float, used: float, *, came_further: bool) -> str:
        """Why it is a stall, "" while it is none; `now` and `used`: of the clock, and processor time of ours."""
        if came_further or self.at is None:
            self.at = now, used
        waited, spent = now - self.at[0], used - self.at[1]
        if waited > STUCK_SECONDS and spent < waited / 100:
            return f"nothing was done for {waited:.0f} s"
        if spent > STUCK_SECONDS:
            return f"{spent:.0f} s of work came to nothing"
        return ""


def _told(home: House, made: dict[str, Device]) -> str:
    """What does not come to an end."""
    kept = [
        f"{name} {one.session.hex()[:6]} {one.side.value} {one.stage.value}"
        for name, device in made.items()
        for one in handoff_journal.unfinished(device.store)
    ]
    going = [
        f"{name} {one.session.hex()[:6]} {one.one.stage.value} {list(one.busy)} {one.turn.locked()}"
        for name, site in home.sites.items()
        for one in site.handoffs.turns.goings.values()
    ]
    links = [f"{name}: {len(site.links)} links" for name, site in home.sites.items()]
    return "; ".join([*kept, "in memory", *going, *links])


def _quiet(home: House, made: dict[str, Device]) -> bool:
    return all(not handoff_journal.unfinished(one.store) for one in made.values()) and all(
        not going.busy for site in home.sites.values() for going in site.handoffs.turns.goings.values()
    )


def test_a_stall_is_told_from_a_machine_that_is_slow() -> None:
    """The positive control of what ends the long test."""
    slow, still, busy = Stall(), Stall(), Stall()
    for second in range(1000):
        assert not slow.why(second, second / 20, came_further=second % 500 == 0)
        still_why, busy_why = still.why(second, 0, came_further=False), busy.why(second, second, came_further=False)
        assert bool(still_why) == bool(busy_why) == (second > STUCK_SECONDS)


def test_a_session_that_two_devices_may_go_on_with_is_noticed(tmp_path: Path) -> None:
    """The positive control of what the long test looks for."""
    with devices(tmp_path, [], *NAMES) as both:
        made = dict(zip(NAMES, both, strict=True))
        session = made["laptop"].create("task")
        assert holder(made, session) == "laptop"
        with contextlib.ExitStack() as after:
            after.enter_context(mock.patch.object(Doors, "may_append", lambda _: None))
            from tests.node.two import brought

            brought(made["laptop"], made["desktop"], session)
            with pytest.raises(AssertionError, match="may go on at"):
                holder(made, session)
