"""Sleep is told apart from time that goes by."""

from __future__ import annotations

import asyncio

import pytest

from hhd.discovery.waking import ASLEEP_SECONDS, LOOK_SECONDS, STOOD_SECONDS, Clocks, Sleeper, watch


class Twin(Clocks):
    """Clocks that a test moves."""

    def __init__(self) -> None:
        self.awake = self.whole = 1000.0

    def ticking(self) -> float:
        return self.awake

    def passing(self) -> float:
        return self.whole

    def go(self, seconds: float, *, asleep: float = 0.0) -> None:
        self.awake += seconds
        self.whole += seconds + asleep


@pytest.mark.parametrize("asleep", [1.5, 31.0, 86400.0])
def test_a_sleep_is_noticed_once(asleep: float) -> None:
    clocks = Twin()
    sleeper = Sleeper(clocks)
    clocks.go(LOOK_SECONDS)
    assert sleeper.slept() == 0
    clocks.go(LOOK_SECONDS, asleep=asleep)
    assert sleeper.slept() == pytest.approx(asleep)
    clocks.go(LOOK_SECONDS)
    assert sleeper.slept() == 0


def test_a_busy_moment_is_no_sleep_and_a_stopped_process_is_one() -> None:
    clocks = Twin()
    sleeper = Sleeper(clocks)
    clocks.go(STOOD_SECONDS / 2, asleep=ASLEEP_SECONDS / 2)
    assert sleeper.slept() == 0
    clocks.go(STOOD_SECONDS * 3)
    assert sleeper.slept() == pytest.approx(STOOD_SECONDS * 3)


def test_the_watch_tells_of_each_sleep_and_goes_on() -> None:
    clocks, told = Twin(), list[float]()
    sleeps = iter([0.0, 60.0, 0.0, 5.0])

    async def pause(seconds: float) -> None:
        clocks.go(seconds, asleep=next(sleeps))

    async def main() -> None:
        with pytest.raises(RuntimeError):  # The script is over.
            await watch(told.append, clocks, pause=pause)

    asyncio.run(main())
    assert told == [pytest.approx(60.0), pytest.approx(5.0)]


def test_the_clocks_of_this_system_agree_while_it_is_awake() -> None:
    assert Sleeper(Clocks()).slept() == 0
