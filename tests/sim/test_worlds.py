"""Hundreds of seeded worlds in which nothing that must hold is broken, and every kind of trouble was met."""

from __future__ import annotations

import time

import pytest
from tests.sim.checks import Checks
from tests.sim.running import REQUIRED, Tally, run_world, run_worlds

ALWAYS = 300
"""Worlds that are run however slow the machine is; while the box of time lasts, more of those that `make sim` runs."""
BOX_SECONDS, LONG_SECONDS = 60, 240
ISSUE = REQUIRED[:9]
"""What each run must have met: a zero fails."""


def _box(first: int, always: int, seconds: float) -> Tally:
    tally = run_worlds(range(first, first + always))
    end = time.monotonic() + seconds
    more = run_worlds(range(first + always, first + 100 * always), lambda: time.monotonic() < end)
    tally.failures.update(more.failures)
    tally.reached.update(more.reached)
    tally.worlds += more.worlds
    print(f"{tally.worlds} worlds\n{tally.told()}")
    return tally


def _stories(tally: Tally) -> str:
    """The first failing seed with all that happened, and how to see it again."""
    for seed, error in sorted(tally.failures.items()):
        return f"{run_world(seed)[2].story()}\nseed {seed}: {error}\npython -m tests.sim {seed}"
    return ""


def test_nothing_breaks_in_the_first_worlds() -> None:
    tally = _box(0, ALWAYS, BOX_SECONDS)
    assert not tally.failures, _stories(tally)
    assert not [what for what in ISSUE if not tally.reached[what]], tally.told()


@pytest.mark.long
def test_nothing_breaks_in_many_worlds() -> None:
    tally = _box(50_000, 10 * ALWAYS, LONG_SECONDS)
    assert not tally.failures, _stories(tally)
    assert not tally.missing(), tally.told()


def test_a_run_that_met_no_trouble_shows_nothing() -> None:
    tally = run_worlds([])
    assert tally.missing() == list(REQUIRED)
    tally.reached.update(REQUIRED[1:])
    assert tally.missing() == [REQUIRED[0]]


def test_a_failing_world_tells_its_whole_story(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(checks: Checks, *_: object) -> None:
        raise AssertionError("it broke")

    assert run_world(96)[1] is None
    monkeypatch.setattr(Checks, "at_the_end", breaks)
    told = _stories(run_worlds([96]))
    assert "seed 96: it broke" in told and told.endswith("python -m tests.sim 96")
    assert "the calm begins" in told and " writes laptop." in told


def test_a_world_is_the_same_each_time() -> None:
    one, other = run_world(96)[2], run_world(96)[2]
    assert one.story() == other.story() and one.reached == other.reached
    assert run_world(95)[2].story() != one.story()
