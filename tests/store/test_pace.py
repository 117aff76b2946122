"""How long a guest may compute between two checkpoints."""

from __future__ import annotations

import pytest

from hhd.store.pace import BUSY_SECONDS, BUSY_SECONDS_MAX, SHARE, Pace


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [(0.0, BUSY_SECONDS), (0.002, BUSY_SECONDS), (0.3, 0.3 / SHARE), (5.0, BUSY_SECONDS_MAX)],
)
def test_checkpoints_come_once_a_second_at_most_and_take_a_small_share_of_the_time(cost: float, seconds: float) -> None:
    pace = Pace()
    assert pace.seconds == BUSY_SECONDS
    pace.cost(cost)
    assert pace.seconds == pytest.approx(seconds)


def test_a_guest_that_becomes_cheap_again_is_checkpointed_once_a_second_again() -> None:
    pace = Pace()
    pace.cost(1.0)
    pace.cost(0.001)
    assert pace.seconds == BUSY_SECONDS
