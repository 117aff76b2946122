"""Whom to dial, where and when: a pure machine, told what is known and asked what to do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.node import dialling as module
from hhd.node.dialling import (
    COURTESY_SECONDS,
    DIALS_MAX,
    FAREWELL_TRIES,
    FIRST_WAIT_SECONDS,
    FIXED_MAX,
    HEARD_MAX,
    NAMES_MAX,
    REFUSED_TRIES,
    STABLE_SECONDS,
    STAGGER_SECONDS,
    WAIT_SECONDS_MAX,
    WRONG_WAIT_SECONDS,
    Dial,
    Dialling,
    Outcome,
    Place,
)
from hhd_protocol.ids import DeviceId

LAPTOP, DESKTOP, PHONE, STRANGER = (DeviceId(bytes([number] * 32)) for number in range(1, 5))
HOME, OFFICE, CAFE = Place("192.0.2.1", 4711), Place("fd00::1", 4711), Place("198.51.100.1", 80)
ONE, TWO = b"1" * 8, b"2" * 8


def laptop(*others: DeviceId, chance: Callable[[], float] = lambda: 1.0) -> Dialling:
    machine = Dialling(LAPTOP, chance)
    machine.members({LAPTOP, *others})
    return machine


def test_a_member_that_is_heard_of_is_dialled_there_at_once() -> None:
    machine = laptop(DESKTOP)
    assert machine.deadline() is None and machine.next(0.0) == []
    machine.heard(DESKTOP, ONE, [HOME], 1.0)
    assert machine.deadline() == 1.0
    assert machine.next(1.0) == [Dial(DESKTOP, HOME)]
    assert machine.next(1.0) == [] and machine.deadline() is None  # It is under way.


def test_strangers_are_never_dialled() -> None:
    machine = laptop(DESKTOP)
    machine.heard(STRANGER, ONE, [HOME], 0.0)
    machine.known(STRANGER, [OFFICE], 0.0)
    assert machine.next(99.0) == [] and machine.deadline() is None


def test_the_one_of_the_greater_id_lets_the_other_dial_first() -> None:
    machine = Dialling(DESKTOP, lambda: 1.0)
    machine.members({LAPTOP})
    machine.heard(LAPTOP, ONE, [HOME], 1.0)
    assert machine.next(1.0) == [] and machine.deadline() == 1.0 + COURTESY_SECONDS
    assert machine.next(1.0 + COURTESY_SECONDS) == [Dial(LAPTOP, HOME)]


def test_several_addresses_are_tried_shortly_after_one_another_until_there_is_a_link() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME, OFFICE, CAFE], 0.0)
    assert len(machine.next(0.0)) == 1 and machine.next(0.01) == []
    assert machine.deadline() == STAGGER_SECONDS
    (second,) = machine.next(STAGGER_SECONDS)
    machine.ended(second, None, 0.2)
    machine.linked(DESKTOP, 0.2)
    assert machine.next(5.0) == [] and machine.deadline() is None


def test_no_more_than_a_few_dials_to_one_device_are_under_way() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [Place("192.0.2.1", port) for port in range(1, 9)], 0.0)
    begun = [dial for step in range(100) for dial in machine.next(step * STAGGER_SECONDS)]
    assert len(begun) == DIALS_MAX and machine.deadline() is None
    machine.ended(begun[0], Outcome.SILENT, 99.0)
    assert len(machine.next(99.0)) == 1


def test_each_failure_doubles_the_wait_to_a_bound_and_chance_halves_it_at_most() -> None:
    for chance in (0.0, 1.0):
        machine = laptop(DESKTOP, chance=lambda: chance)  # noqa: B023
        machine.known(DESKTOP, [HOME], 0.0)
        now, waits = 0.0, []
        for _ in range(12):
            (dial,) = machine.next(now)
            machine.ended(dial, Outcome.SILENT, now)
            due = machine.deadline()
            assert due is not None
            waits.append(due - now)
            now = due
        share = 1.0 if chance else 0.5
        assert waits[:3] == pytest.approx([share * FIRST_WAIT_SECONDS * factor for factor in (1, 2, 4)])
        assert waits[-1] == pytest.approx(share * WAIT_SECONDS_MAX)


def test_a_changed_network_or_a_wake_forgets_all_waits() -> None:
    machine = laptop(DESKTOP)
    machine.known(DESKTOP, [HOME], 0.0)
    for _ in range(5):
        due = machine.deadline()
        assert due is not None
        machine.ended(machine.next(due)[0], Outcome.SILENT, due)
    machine.stirred(due)
    due += STAGGER_SECONDS
    assert machine.next(due) == [Dial(DESKTOP, HOME)]
    machine.ended(Dial(DESKTOP, HOME), Outcome.SILENT, due)
    assert machine.deadline() == due + FIRST_WAIT_SECONDS


def test_one_that_started_anew_is_dialled_at_once_and_one_that_repeats_itself_is_not() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME], 0.0)
    for now in (0.0, 1.0, 2.0, 4.0):
        for dial in machine.next(now):
            machine.ended(dial, Outcome.SILENT, now)
    machine.heard(DESKTOP, ONE, [HOME], 4.1)
    assert machine.next(4.1) == []
    machine.heard(DESKTOP, TWO, [HOME], 4.2)
    assert machine.next(4.2) == [Dial(DESKTOP, HOME)]


def test_where_somebody_else_answers_is_left_alone_for_long() -> None:
    machine = laptop(DESKTOP)
    machine.known(DESKTOP, [HOME, OFFICE], 0.0)
    dial = machine.next(0.0)[0]
    machine.ended(dial, Outcome.WRONG, 0.0)
    assert machine.next(1.0) == [Dial(DESKTOP, OFFICE if dial.place == HOME else HOME)]
    machine.ended(Dial(DESKTOP, OFFICE), Outcome.SILENT, 1.0)
    assert Dial(DESKTOP, dial.place) not in [one for step in range(100) for one in machine.next(1 + step / 2)]
    assert Dial(DESKTOP, dial.place) in machine.next(WRONG_WAIT_SECONDS)


def in_vain(machine: Dialling, now: float, times: int = FAREWELL_TRIES) -> float:
    """Nobody answers where the desktop may be, `times` at each place; return when that is over."""
    for _ in range(times * max(1, len(machine.places(DESKTOP)))):
        due = machine.deadline()
        assert due is not None
        now = max(now, due)
        (dial,) = machine.next(now)
        machine.ended(dial, Outcome.SILENT, now)
    return now


def test_who_is_not_let_in_yet_tries_again_soon_and_who_was_put_out_does_not() -> None:
    """Two that were paired just now learn of that one after the other."""

    dial = Dial(DESKTOP, HOME)

    def waits(machine: Dialling, now: float, times: int) -> list[float]:
        found = []
        for _ in range(times):
            machine.ended(dial, Outcome.REFUSED, now)
            due = machine.deadline()
            assert due is not None
            found.append(due - now)
            now = due
            assert machine.next(now) == [dial]
        return found

    machine = laptop(DESKTOP)
    machine.known(DESKTOP, [HOME], 0.0)
    assert machine.next(0.0) == [dial]
    *soon, late, later = waits(machine, 0.0, REFUSED_TRIES + 2)
    assert sum(soon) <= 10.0
    assert WRONG_WAIT_SECONDS / 2 <= late <= WRONG_WAIT_SECONDS < later <= 2 * WRONG_WAIT_SECONDS
    once = laptop(DESKTOP)
    once.known(DESKTOP, [HOME], 0.0)
    assert once.next(0.0) == [dial]
    once.ended(dial, None, 0.0)
    once.linked(DESKTOP, 0.0)
    once.lost(DESKTOP, 100.0)
    assert once.next(100.0) == [dial]
    assert waits(once, 100.0, 1)[0] >= WRONG_WAIT_SECONDS / 2


def test_a_place_that_is_not_announced_any_more_is_forgotten_once_nobody_answers_there() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME, OFFICE], 0.0)
    machine.heard(DESKTOP, ONE, [OFFICE], 1.0)
    assert machine.next(1.0) == [Dial(DESKTOP, OFFICE)], "where it is announced comes first"
    machine.ended(Dial(DESKTOP, OFFICE), None, 1.1)
    machine.gone(ONE)
    in_vain(machine, 2.0, FAREWELL_TRIES)
    assert machine.places(DESKTOP) == [] and machine.deadline() is None


def test_a_farewell_that_anybody_may_have_forged_keeps_nobody_from_being_dialled() -> None:
    machine = Dialling(DESKTOP, lambda: 1.0)
    machine.members({LAPTOP})
    machine.heard(LAPTOP, ONE, [HOME], 0.0)
    machine.gone(ONE)  # Said by a third one before this device, which lets the other dial first, has dialled.
    assert machine.next(COURTESY_SECONDS) == [Dial(LAPTOP, HOME)]
    machine.ended(Dial(LAPTOP, HOME), None, 0.2)
    machine.linked(LAPTOP, 0.2)
    machine.lost(LAPTOP, 99.0)
    assert machine.next(99.0) == [Dial(LAPTOP, HOME)], "that there was a link counts for it"


def test_who_repeats_what_a_name_said_and_its_farewell_makes_nobody_dial_more_often() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME], 0.0)
    dials = 0
    for step in range(2000):
        now = step / 10
        for dial in machine.next(now):
            machine.ended(dial, Outcome.SILENT, now)
            dials += 1
        machine.gone(ONE)
        machine.heard(DESKTOP, ONE, [HOME], now)
    assert dials < 2000 / 10 / 10, "it waits longer each time"


def test_a_place_is_there_as_long_as_one_of_its_names_is_though_the_old_one_is_heard_late() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME], 0.0)
    machine.heard(DESKTOP, TWO, [HOME], 1.0)
    machine.heard(DESKTOP, ONE, [HOME], 2.0)
    machine.gone(ONE)
    now = in_vain(machine, 2.0, 2 * FAREWELL_TRIES)
    assert machine.places(DESKTOP) == [HOME]
    machine.gone(TWO)
    now = in_vain(machine, now)
    assert machine.places(DESKTOP) == []
    for number in range(100):
        machine.heard(DESKTOP, number.to_bytes(8, "big"), [HOME], now)
    for number in range(100 - NAMES_MAX, 100):
        machine.gone(number.to_bytes(8, "big"))
    in_vain(machine, now)
    assert machine.places(DESKTOP) == []


def test_a_place_that_once_worked_or_was_fixed_outlives_what_a_network_says() -> None:
    machine = laptop(DESKTOP)
    machine.known(DESKTOP, [HOME], 0.0)
    machine.fixed([(OFFICE, DESKTOP)], 0.0)
    for number in range(200):
        machine.heard(DESKTOP, number.to_bytes(8, "big"), [Place(f"203.0.113.{number}", 1), HOME], float(number))
        machine.gone(number.to_bytes(8, "big"))
    assert {HOME, OFFICE} <= set(machine.places(DESKTOP)) and len(machine.places(DESKTOP)) <= HEARD_MAX + 2


def test_a_fixed_address_is_asked_who_is_there_while_anybody_is_missing() -> None:
    machine = laptop(DESKTOP, PHONE)
    machine.fixed([(CAFE, None)], 0.0)
    assert machine.next(0.0) == [Dial(None, CAFE)]
    machine.ended(Dial(None, CAFE), None, 0.1)
    machine.fixed([(CAFE, DESKTOP)], 0.1)
    assert machine.next(0.1) == [Dial(DESKTOP, CAFE)]
    machine.ended(Dial(DESKTOP, CAFE), None, 0.1)
    machine.linked(DESKTOP, 0.1)
    machine.fixed([(CAFE, DESKTOP), (HOME, None)], 0.2)
    assert machine.next(0.2) == [Dial(None, HOME)]  # The phone may be there.
    machine.ended(Dial(None, HOME), Outcome.SILENT, 0.3)
    machine.linked(PHONE, 0.3)
    assert machine.next(9999.0) == [] and machine.deadline() is None
    machine.fixed([], 1.0)
    machine.lost(DESKTOP, 1000.0)
    assert machine.next(1000.0) == []


def test_a_device_that_is_no_member_any_more_is_forgotten_with_its_places() -> None:
    machine = laptop(DESKTOP, PHONE)
    machine.heard(DESKTOP, ONE, [HOME], 0.0)
    machine.fixed([(CAFE, DESKTOP)], 0.0)
    (dial,) = machine.next(0.0)
    machine.members({LAPTOP, PHONE})
    machine.ended(dial, Outcome.SILENT, 1.0)
    assert machine.places(DESKTOP) == [] and all(one.device != DESKTOP for one in machine.next(99.0))


def test_a_lost_link_is_dialled_again_at_once_and_ever_later_where_links_do_not_last() -> None:
    machine = laptop(DESKTOP)
    machine.heard(DESKTOP, ONE, [HOME], 0.0)
    now = 0.0
    dialled = []
    for _ in range(8):
        (dial,) = machine.next(now)
        dialled.append(now)
        machine.ended(dial, None, now)
        machine.linked(DESKTOP, now)
        machine.lost(DESKTOP, now + 0.1)
        due = machine.deadline()
        assert due is not None
        now = max(due, now + 0.1 + STAGGER_SECONDS)
    gaps = [after - before for before, after in itertools.pairwise(dialled)]
    assert gaps[0] < 1 and gaps[-1] > 10 and gaps == sorted(gaps)
    machine.next(now)
    machine.ended(dial, None, now)
    machine.linked(DESKTOP, now)
    machine.lost(DESKTOP, now + STABLE_SECONDS)
    assert machine.next(now + STABLE_SECONDS) == [dial]  # That one had lasted.


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_whatever_comes_dials_are_few_and_due_and_only_to_members(seed: int) -> None:
    dice = random.Random(seed)
    machine = laptop(DESKTOP, PHONE, chance=dice.random)
    now, under_way, linked = 0.0, list[Dial](), set[DeviceId]()
    for _ in range(150):
        now += dice.choice([0.0, 0.05, 1.0, 30.0])
        device = dice.choice([DESKTOP, PHONE, STRANGER, LAPTOP])
        places = [Place(f"192.0.2.{dice.randrange(40)}", 1) for _ in range(dice.randrange(12))]
        match dice.randrange(9):
            case 0 | 1:
                machine.heard(device, dice.randbytes(1), places, now)
            case 2:
                machine.gone(dice.randbytes(1))
            case 3:
                machine.known(device, places, now)
            case 4:
                machine.fixed([(one, dice.choice([None, DESKTOP, STRANGER])) for one in places], now)
            case 5 if device in (DESKTOP, PHONE):
                machine.linked(device, now)
                linked.add(device)
            case 6:
                machine.lost(device, now)
                linked.discard(device)
            case 7 if under_way:
                dial = under_way.pop(dice.randrange(len(under_way)))
                machine.ended(dial, dice.choice([None, *Outcome]), now)
            case 8:
                machine.stirred(now)
        due = machine.deadline()
        begun = machine.next(now)
        assert bool(begun) == (due is not None and due <= now)
        for dial in begun:
            assert dial.device in (None, DESKTOP, PHONE) and dial.device not in linked
        under_way += begun
        assert len(under_way) == len(set(under_way))
        assert all(sum(dial.device == one for dial in under_way) <= DIALS_MAX for one in (DESKTOP, PHONE))
        for one in (DESKTOP, PHONE):
            assert len(machine.places(one)) <= HEARD_MAX + module.LINKED_MAX + FIXED_MAX + DIALS_MAX


def test_two_that_hear_each_other_at_once_dial_once() -> None:
    one, other = Dialling(LAPTOP, lambda: 0.5), Dialling(DESKTOP, lambda: 0.5)
    one.members({DESKTOP})
    other.members({LAPTOP})
    one.heard(DESKTOP, ONE, [HOME], 0.0)
    other.heard(LAPTOP, TWO, [OFFICE], 0.0)
    assert len(one.next(0.0)) == 1 and other.next(0.0) == []
    one.linked(DESKTOP, 0.1)
    other.linked(LAPTOP, 0.1)
    assert one.next(1.0) == [] and other.next(1.0) == []
