"""Turns: first come, first served, no more at once than may be, and none is lost with who had it."""

from __future__ import annotations

import random
from collections import Counter

from hhd.node.turns import BUSY_MS, Turns


def test_who_comes_first_is_first_and_no_more_compute_at_once_than_may() -> None:
    turns = Turns(at_once=2)
    assert turns.wants("a") == [("a", 0)]
    assert turns.wants("b") == [("b", BUSY_MS)]
    assert turns.wants("c") == turns.wants("d") == []
    assert turns.gives("b") == [("c", BUSY_MS)]
    assert turns.gives("a") == [("d", BUSY_MS)]
    assert turns.gives("c") == turns.gives("d") == []
    assert turns.wants("a") == [("a", 0)]


def test_who_is_gone_neither_keeps_a_turn_nor_gets_one() -> None:
    turns = Turns(at_once=1)
    assert turns.wants("a") and not turns.wants("b") and not turns.wants("c")
    assert turns.gives("b") == []  # It waited.
    assert turns.gives("a") == [("c", BUSY_MS)]
    assert turns.gives("unknown") == []


def test_all_of_many_get_as_many_turns() -> None:
    turns, dice, had = Turns(at_once=4), random.Random(1), Counter[object]()
    computing = [who for number in range(50) for who, _ in turns.wants(number)]
    for _ in range(5000):
        who = computing.pop(dice.randrange(len(computing)))
        had[who] += 1
        computing += [one for one, _ in turns.gives(who)]
        computing += [one for one, _ in turns.wants(who)]
        assert len(computing) <= 4
    assert max(had.values()) - min(had.values()) <= 6 and len(had) == 50
