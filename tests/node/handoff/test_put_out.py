"""A handoff whose target is put out before the release: it is given up, and the session goes on where it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.node.handoff.handing import Site, house, until
from tests.node.handoff.test_removed import at_stage, three
from tests.node.two import Device

from hhd.node.ended import End
from hhd.node.group import Membership
from hhd.node.handoff import held_back
from hhd.node.handoff import journal as handoff_journal
from hhd_protocol.handoff import PENDING, UNTAKEN, Side, Stage

__all__ = ["three"]
NOW_MS = 1_700_000_000_000
PLACES = [(Side.SOURCE, stage) for stage in PENDING] + [(Side.TARGET, stage) for stage in UNTAKEN]


def before(source: Site, act: Callable[[], None]) -> None:
    """Do something before the release is signed."""
    turns = source.handoffs.turns
    sign = turns._sign

    async def signed(*given: Any) -> None:
        act()
        await sign(*given)

    turns._sign = signed  # type: ignore[method-assign]


CASES = [("laptop", *place) for place in PLACES] + [("tower", Side.TARGET, Stage.READY)]


@pytest.mark.parametrize(("by", "side", "stage"), CASES, ids=lambda part: getattr(part, "value", part))
def test_before_the_release_it_is_given_up_at_once_and_the_session_goes_on_at_the_source(
    three: list[Device], by: str, side: Side, stage: Stage
) -> None:
    laptop, desktop, tower = three
    session = laptop.create()
    assert laptop.go_here(session).end is End.WAITING

    async def go() -> None:
        async with house(three) as home:
            source = home.sites["laptop"]

            def put_out() -> None:
                group = {"laptop": laptop, "tower": tower}[by].group
                group.revoke(desktop.me.id, NOW_MS)
                with source.opened() as control:
                    Membership(control.store, control.me).take(group.records())
                for link in (source.links[desktop.me.id], home.sites["desktop"].links[laptop.me.id]):
                    asyncio.get_running_loop().call_soon(link.cut, "it was put out")
                asyncio.get_running_loop().call_soon(source.handoffs.regrouped)

            if (side, stage) == (Side.SOURCE, Stage.READY):  # One transaction with the release: before that.
                before(source, put_out)
            else:
                at_stage(home.sites["laptop" if side is Side.SOURCE else "desktop"], side, stage, put_out)
            async with asyncio.timeout(240):  # Not when its deadline is over, after ten minutes.
                said = await source.transfer(session, "desktop")
            assert (said[-1].stage, said[-1].over) == ("aborted", True) and "was put out" in said[-1].sentence
            with source.opened() as control:
                await until(lambda: not held_back.every(control.store))

    asyncio.run(go())
    (record,) = handoff_journal.every(laptop.store)
    assert record.stage is Stage.ABORTED
    assert laptop.go_here(session).end is End.WAITING, "it is the laptop's to go on with"
