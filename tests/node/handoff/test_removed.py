"""A session that a third device removes everywhere while it is on its way: the handoff ends, and nobody goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import Site, house, unasked, until
from tests.node.two import Device, brought

from hhd.node.ended import End
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.going import Going
from hhd.node.sync.intake import Intake
from hhd_protocol.bodies import TombstoneBody
from hhd_protocol.handoff import Handoff, Side, Stage
from hhd_protocol.ids import SessionId
from hhd_protocol.sync.messages import Entry, Statements

pytestmark = needs_agent

SCRIPT = [GLOB, says(call("bash", command="echo x >> runs")), says(text("Done."))]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, SCRIPT, "laptop", "desktop", "tower", again=0.2, look=0.05, reply=1.0) as made:
        yield made


def tombstone(laptop: Device, tower: Device, session: SessionId) -> bytes:
    """What `hhd rm --everywhere` on the tower signs."""
    brought(laptop, tower, session)
    tower.control.remove(tower.control.removal(session.hex(), everywhere=True))
    (raw,) = [one.raw for one in tower.store.statements.all(session) if isinstance(one.body, TombstoneBody)]
    return raw


def hears(site: Site, tower: Device, session: SessionId, raw: bytes) -> None:
    """The device takes the tombstone in, as its sync does, and its handoffs hear of it."""
    with site.opened() as control:
        intake = Intake(control.store, control.me, None)  # type: ignore[arg-type]
        intake.statements(tower.me.id, Statements(session=session, entries=(Entry(raw=raw),)))
    site.handoffs.learned(session)


def at_stage(site: Site, side: Side, stage: Stage, act: Callable[[], None]) -> None:
    """Do something once at a device when its handoff has come to a stage, before anything more is done for it."""
    real, done = site.handoffs.turns._now, list[bool]()

    def now(going: Going, after: Handoff) -> None:
        real(going, after)
        if (after.side, after.stage) == (side, stage) and not done:
            done.append(True)
            act()

    site.handoffs.turns._now = now  # type: ignore[method-assign]


@pytest.mark.parametrize("first", ["laptop", "desktop", "both"])
@pytest.mark.parametrize(
    ("side", "stage"),
    [
        (Side.SOURCE, Stage.STAGED),
        (Side.SOURCE, Stage.READY),
        (Side.SOURCE, Stage.RELEASED),
        (Side.TARGET, Stage.READY),
    ],
)
def test_the_handoff_of_a_session_that_is_removed_everywhere_ends_and_nobody_goes_on(
    three: list[Device], side: Side, stage: Stage, first: str
) -> None:
    laptop, desktop, tower = three
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    raw = tombstone(laptop, tower, session)

    async def go() -> None:
        async with house([laptop, desktop]) as home:
            sites = home.sites
            names = ("laptop", "desktop") if first == "both" else (first,)

            def removed() -> None:
                for name in names:
                    hears(sites[name], tower, session, raw)

            at_stage(sites["laptop" if side is Side.SOURCE else "desktop"], side, stage, removed)
            moving = asyncio.create_task(sites["laptop"].transfer(session, "desktop"))
            await asyncio.wait([moving])
            for name in ("laptop", "desktop"):  # In the end it comes to every device.
                hears(sites[name], tower, session, raw)
            await until(lambda: not any(handoff_journal.unfinished(one.store) for one in (laptop, desktop)), 60)
            await until(lambda: not any(site.handoffs.turns.goings for site in sites.values()), 60)
            assert moving.result()[-1].over

    asyncio.run(go())
    for device in (laptop, desktop):
        assert session not in device.store.sessions()
    (record,) = laptop.control.transfers()
    assert record.over and "hhd takeover" not in record.way, "there is nothing to go on with"


def test_a_release_is_not_said_for_ever_where_its_session_is_removed(three: list[Device]) -> None:
    """The source alone, its target gone for good: it hears of the removal, and closes."""
    laptop, desktop, tower = three
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING
    raw = tombstone(laptop, tower, session)

    async def go() -> None:
        async with house([laptop, desktop]) as home:
            with mock.patch.object(handoff_steps, "take", side_effect=handoff_steps.RefusedError("no")):
                moved = await home.sites["laptop"].transfer(session, "desktop")
                assert moved[-1].status == 5
                await home.kill("desktop")
            (before,) = handoff_journal.unfinished(laptop.store)
            assert before.stage is Stage.RELEASED, "the positive control: until then it waits"
            hears(home.sites["laptop"], tower, session, raw)
            await until(lambda: not handoff_journal.unfinished(laptop.store))

    asyncio.run(go())
    (record,) = laptop.control.transfers()
    assert (record.stage, record.ownership) == ("superseded", "no device has it any more")
