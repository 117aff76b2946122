"""Instances that were heard: bounded in number, and in how often each is looked at."""

from __future__ import annotations

from hhd.discovery.sightings import CHANGE_SECONDS_MIN, INSTANCES_MAX, LATE_SECONDS, Heard, Sightings


def said(number: int) -> Heard:
    return Heard({b"v": b"1"}, number, ("192.0.2.7",))


def test_an_instance_is_looked_at_when_it_is_heard_first() -> None:
    seen = Sightings()
    assert seen.heard("a", said(1), 10.0) and seen.heard("b", said(1), 10.0)
    assert seen.deadline() is None and seen.due(99.0) == []


def test_one_that_changes_all_the_time_is_looked_at_once_a_second_and_as_it_is_then() -> None:
    seen = Sightings()
    looks = []
    for step in range(1000):
        now = step / 100
        if seen.heard("a", said(step), now):
            looks.append(step)
        looks += [heard.port for _, heard in seen.due(now)]
    assert len(looks) <= 10 / CHANGE_SECONDS_MIN + 1
    assert seen.deadline() is not None
    last = seen.due(11.0)
    assert [heard.port for _, heard in last] == [999]  # The last word is not lost.
    assert seen.deadline() is None


def test_coming_and_going_is_not_looked_at_more_often() -> None:
    seen = Sightings()
    assert seen.heard("a", said(1), 0.0)
    for step in range(50):
        seen.gone("a", 0.5)
        assert not seen.heard("a", said(step), 0.5)
    seen.gone("a", 0.5)
    assert seen.due(5.0) == [] and seen.deadline() is None


def test_what_comes_soon_under_a_name_that_said_farewell_is_late() -> None:
    seen = Sightings()
    assert seen.heard("a", said(1), 0.0) and not seen.is_late("a", 0.0)
    seen.gone("a", 2.0)
    assert seen.heard("a", said(1), 3.2) and seen.is_late("a", 3.2)
    assert seen.heard("b", said(1), 3.2) and not seen.is_late("b", 3.2)
    assert not seen.is_late("a", 2.0 + LATE_SECONDS)


def test_farewells_that_are_repeated_make_nothing_late_for_longer() -> None:
    seen = Sightings()
    assert seen.heard("a", said(1), 0.0)
    for step in range(200):  # Whoever forges one can forge ten a second.
        seen.gone("a", step / 10)
        assert seen.is_late("a", step / 10) is (step / 10 < LATE_SECONDS)
    assert seen.heard("a", said(1), 20.0) and not seen.is_late("a", 20.0)
    seen.gone("a", 20.1)
    assert seen.is_late("a", 20.2), "it was heard since, so this may be its own"


def test_thousands_of_instances_take_the_room_of_a_few_hundred() -> None:
    seen = Sightings()
    for number in range(10_000):
        assert seen.heard(f"{number}", said(1), number / 10_000)
        seen.heard(f"{number}", said(2), number / 10_000)
        seen.gone(f"x{number}", number / 10_000)
    assert len(seen) == INSTANCES_MAX and len(seen.due(100.0)) <= INSTANCES_MAX
