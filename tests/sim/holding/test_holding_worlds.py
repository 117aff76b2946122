"""Hundreds of seeded worlds in which nothing that must hold is broken, and every kind of trouble was met."""

from __future__ import annotations

import pytest
from tests.sim.checks import Checks
from tests.sim.kinds import HOLDING
from tests.sim.running import run_world, run_worlds
from tests.sim.seeds import WIDE
from tests.sim.worlds import all_hold, is_the_same_each_time, usual

WORLDS, LONG = range(600), range(50_000, 54_000)
MORE, MORE_LONG = range(WIDE, WIDE + 200), range(WIDE + 50_000, WIDE + 52_000)
"""Of those with removals and late content."""
FOUND = {
    6244: "a restored store worked on under a token that it had released before, and its work was in no head",
    6415: "two devices revoked each other, no token was left, and work in no checkpoint stayed so",
    1000298: "a session that was removed everywhere came back, by the closing checkpoint of a device that was fenced",
}
OF_MORE = ("removed", "newer work outlives a removal", "content comes later", "refused: head-not-here")


def test_nothing_breaks_in_the_first_worlds() -> None:
    all_hold(HOLDING, WORLDS, met=usual(HOLDING))


def test_nothing_breaks_where_sessions_are_removed_and_content_comes_late() -> None:
    all_hold(HOLDING, MORE, met=OF_MORE)


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_worlds_that_broke_once_hold(seed: int) -> None:
    all_hold(HOLDING, [seed])


@pytest.mark.long
def test_nothing_breaks_in_many_worlds() -> None:
    all_hold(HOLDING, [*LONG, *MORE_LONG], met=HOLDING.required)


def test_a_failing_world_tells_its_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(checks: Checks, *_: object) -> None:
        raise AssertionError("it broke")

    assert run_world(HOLDING, 96)[1] is None
    monkeypatch.setattr(Checks, "at_the_end", breaks)
    told = run_worlds(HOLDING, [96]).stories()
    assert "seed 96: it broke" in told and told.endswith("python -m tests.sim holding 96")
    assert "the calm begins" in told and " writes laptop." in told


def test_a_world_is_the_same_each_time() -> None:
    is_the_same_each_time(HOLDING, 96, 95)
