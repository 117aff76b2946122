"""A session at work is told of at once, then with what comes soon after that; an intent waits for nothing."""

from __future__ import annotations

from hhd.node.sync.pacing import PACE_SECONDS, Pacing
from hhd_protocol.ids import SessionId, StatementId

ONE, OTHER = (SessionId(StatementId(bytes([number]) * 32)) for number in range(2))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def tell(pacing: Pacing) -> list[SessionId]:
    """Tell of all that is due."""
    due = pacing.due()
    for session in due:
        pacing.told(session)
    return due


def test_the_first_step_is_told_at_once_and_what_follows_soon_goes_together() -> None:
    clock = Clock()
    pacing = Pacing(clock)
    assert tell(pacing) == [] and not list(pacing.waits())
    pacing.stepped(ONE)
    assert ONE in pacing and list(pacing.waits()) == [0] and tell(pacing) == [ONE] and ONE not in pacing
    for _ in range(20):
        pacing.stepped(ONE)
    pacing.stepped(OTHER)
    assert tell(pacing) == [OTHER], "one session does not keep another one waiting"
    assert ONE in pacing and list(pacing.waits()) == [PACE_SECONDS]
    clock.now += PACE_SECONDS
    assert tell(pacing) == [ONE] and tell(pacing) == []


def test_an_intent_waits_for_nothing_and_what_follows_it_does() -> None:
    pacing = Pacing(Clock())
    pacing.stepped(ONE)
    assert tell(pacing) == [ONE]
    pacing.stepped(ONE)
    assert tell(pacing) == []
    pacing.intends(ONE)
    assert list(pacing.waits()) == [0] and tell(pacing) == [ONE]
    pacing.stepped(ONE)
    assert tell(pacing) == []


def test_who_asks_has_it_told_now_without_another_rest_and_nothing_waits_at_the_end() -> None:
    clock = Clock()
    pacing = Pacing(clock)
    pacing.stepped(ONE)
    pacing.asked(ONE)
    assert ONE not in pacing
    pacing.stepped(ONE)
    assert tell(pacing) == [ONE]
    pacing.stepped(ONE)
    pacing.hurry()
    assert tell(pacing) == [ONE]


def test_sessions_are_told_of_in_the_order_in_which_they_changed() -> None:
    pacing = Pacing(Clock())
    for session in (OTHER, ONE, OTHER):
        pacing.stepped(session)
    assert tell(pacing) == [OTHER, ONE]
