"""What tests say of the worlds of one kind: all hold, what has to be met was met, and each is the same again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tests.sim.kinds import Kind
from tests.sim.running import run_world, run_worlds


def all_hold(kind: Kind, seeds: Iterable[int], *, met: Collection[str] = ()) -> None:
    """Raise AssertionError where a world of `seeds` breaks, with its story, and where none came to one of `met`."""
    tally = run_worlds(kind, seeds)
    print(tally.told())
    assert not tally.failures, tally.stories()
    assert not [what for what in met if not tally.reached[what]], tally.told()


def usual(kind: Kind) -> set[str]:
    """What has to be met in some hundreds of worlds already."""
    return set(kind.required) - kind.rare


def is_the_same_each_time(kind: Kind, seed: int, other: int) -> None:
    """Raise AssertionError where the world of `seed` is another one the next time, or that of `other` is the same."""
    (once, _, one), (again, _, two), (_, _, third) = (run_world(kind, each) for each in (seed, seed, other))
    assert one.story() == two.story() and once == again
    assert third.story() != one.story()
