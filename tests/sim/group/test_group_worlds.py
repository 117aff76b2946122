"""Seeded worlds of groups in which nothing that must hold is broken, and every kind of trouble was met."""

from __future__ import annotations

import pytest
from tests.sim.group.world import World
from tests.sim.kinds import GROUP
from tests.sim.running import run_worlds
from tests.sim.worlds import all_hold, is_the_same_each_time, usual

WORLDS, LONG = range(320), range(50_000, 51_000)


def test_nothing_breaks_in_the_first_worlds() -> None:
    all_hold(GROUP, WORLDS, met=usual(GROUP))


@pytest.mark.long
def test_nothing_breaks_in_many_worlds() -> None:
    all_hold(GROUP, LONG, met=GROUP.required)


def test_a_failing_world_tells_its_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise AssertionError("it broke")

    monkeypatch.setattr(World, "agree", breaks)
    told = run_worlds(GROUP, [4]).stories()
    assert "seed 4: it broke" in told and told.endswith("python -m tests.sim group 4") and "the calm begins" in told


def test_a_world_is_the_same_each_time() -> None:
    is_the_same_each_time(GROUP, 4, 5)
