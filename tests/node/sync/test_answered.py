"""What the others answered counts once all that are linked had their say, or their time for it."""

from __future__ import annotations

import pytest

from hhd.node import around
from hhd.node.sync.answered import ANSWERED_MS, Answered
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.limits import WAKE_WAIT_MS_MAX

DESKTOP, TOWER = DeviceId(b"d" * 32), DeviceId(b"t" * 32)
ONE, OTHER = (SessionId(StatementId(bytes([number]) * 32)) for number in range(2))


class Scene:
    """An `Answered`, its clock and what it said."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_ms, self.told = 1_000_000, list[around.Told]()
        patch.setattr(around, "now_ms", lambda: self.now_ms)
        patch.setattr(around, "write", self.told.append)
        self.answered = Answered()

    def hears(self, *devices: DeviceId, linked: tuple[DeviceId, ...]) -> None:
        self.answered.hears(devices)
        self.answered.say(linked)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_an_answer_of_all_that_are_linked_counts_some_seconds_after_the_first_link_and_is_told_once(
    scene: Scene,
) -> None:
    answered, begin = scene.answered, scene.now_ms
    answered.say([])
    scene.now_ms += 60_000
    answered.say([DESKTOP])
    assert answered.due_ms() is None and not answered.is_due(), "nobody has answered"
    scene.hears(DESKTOP, linked=(DESKTOP,))
    assert answered.due_ms() == begin + 60_000 + ANSWERED_MS and not answered.is_due()
    scene.now_ms += ANSWERED_MS
    assert answered.is_due() and not answered.is_due() and answered.due_ms() is None
    scene.hears(DESKTOP, linked=(DESKTOP,))
    assert answered.is_due(), "another answer is told, too"


def test_where_one_that_is_linked_has_not_answered_the_others_answer_waits_as_long_as_who_woke(scene: Scene) -> None:
    scene.hears(DESKTOP, linked=(DESKTOP, TOWER))
    assert scene.answered.due_ms() == scene.now_ms + WAKE_WAIT_MS_MAX
    scene.hears(TOWER, linked=(DESKTOP, TOWER))
    assert scene.answered.due_ms() == scene.now_ms + ANSWERED_MS


def test_an_answer_from_before_a_wake_or_of_who_is_linked_no_more_counts_for_nothing(scene: Scene) -> None:
    scene.hears(DESKTOP, linked=(DESKTOP,))
    assert scene.told[-1].answered == {DESKTOP}
    scene.answered.say([])
    assert scene.answered.due_ms() is None and not scene.told[-1].answered
    scene.now_ms += 60_000
    scene.answered.woke([])
    scene.answered.say([DESKTOP])
    assert scene.answered.due_ms() is None and (scene.told[-1].answered, scene.told[-1].woke_ms) == (
        frozenset(),
        scene.now_ms,
    )


def test_until_it_is_known_what_goes_on_alone_nobody_says_so_but_for_those_that_a_person_came_to(
    scene: Scene,
) -> None:
    answered = scene.answered
    answered.say([])
    assert scene.told[-1].alone is None and not scene.told[-1].is_attended(ONE)
    assert answered.person(ONE) and not answered.person(ONE)
    answered.say([])
    assert scene.told[-1].is_attended(ONE) and not scene.told[-1].is_attended(OTHER)
    answered.began([ONE, OTHER])
    answered.say([])
    assert scene.told[-1].alone == {OTHER} and not scene.told[-1].attended
    assert answered.person(OTHER) and not answered.person(OTHER)


def test_after_a_wake_what_runs_goes_on_alone_and_what_rested_does_still(scene: Scene) -> None:
    answered = scene.answered
    answered.began([OTHER])
    answered.woke([ONE])
    answered.say([])
    assert scene.told[-1].alone == {ONE, OTHER}
    assert answered.person(ONE)
    answered.say([])
    assert scene.told[-1].alone == {OTHER}
