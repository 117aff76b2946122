"""Seeded worlds with handoffs in which nothing that must hold is broken, and every stage was come to."""

from __future__ import annotations

import pytest
from tests.sim.handoff.running import STAGES
from tests.sim.kinds import HANDOFF
from tests.sim.worlds import all_hold, is_the_same_each_time, usual

from hhd_protocol.handoff import Stage

WORLDS, LONG = range(400), range(50_000, 51_500)
FOUND = {
    316: "a source that was rolled back, and had its release back from others, gave the handoff up",
    102725: "what came just before the calm stayed unsynced for ever, and its release was not looked at",
    102875: "a takeover by the source itself was taken for a sign that the target had taken the release",
}


def test_nothing_breaks_in_the_first_worlds() -> None:
    all_hold(HANDOFF, WORLDS, met=usual(HANDOFF))


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_worlds_that_broke_once_hold(seed: int) -> None:
    all_hold(HANDOFF, [seed])


@pytest.mark.long
def test_nothing_breaks_in_many_worlds() -> None:
    all_hold(HANDOFF, LONG, met=HANDOFF.required)


def test_every_stage_is_required_at_the_side_that_has_it() -> None:
    assert set(STAGES) <= set(HANDOFF.required)
    ends = {stage.value for stage in Stage} - {"none"}
    assert {one.split(": ")[1] for one in STAGES} == ends


def test_a_world_is_the_same_each_time() -> None:
    is_the_same_each_time(HANDOFF, 33, 34)
