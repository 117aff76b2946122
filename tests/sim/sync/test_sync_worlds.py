"""Hundreds of seeded worlds in which devices sync by the product's machine, whatever happens to links and disks."""

from __future__ import annotations

import pytest
from tests.sim.kinds import SYNC
from tests.sim.seeds import WIDE
from tests.sim.worlds import all_hold, is_the_same_each_time, usual

WORLDS = [*range(240), *range(WIDE, WIDE + 80)]
"""The latter with removals."""
LONG, LONG_WIDE = range(10_000, 10_400), range(WIDE + 10_000, WIDE + 10_500)
FOUND = {
    282: "who answered once that it had not an object was never asked again, and nobody else came",
    851: "a head whose content died with its device kept two that were level from saying so",
    1000078: "who removed a session, and was rolled back to before it began, was to know what it had done in it",
    1010735: "who was at work on what was removed counted as one that has to be level",
    1000052: "who was far ahead was told again what it had, as something lost, and took itself for restored",
}


def test_nothing_breaks_in_the_first_worlds_and_all_settle() -> None:
    all_hold(SYNC, WORLDS, met=usual(SYNC))


@pytest.mark.parametrize("seed", FOUND, ids=lambda seed: f"{seed}: {FOUND[seed]}")
def test_worlds_that_broke_once_hold(seed: int) -> None:
    all_hold(SYNC, [seed])


@pytest.mark.long
def test_nothing_breaks_in_more_worlds() -> None:
    all_hold(SYNC, [*LONG, *LONG_WIDE], met=SYNC.required)


def test_a_world_is_the_same_each_time() -> None:
    is_the_same_each_time(SYNC, 96, 97)
