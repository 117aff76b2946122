"""Turns: first come, first served, kept while nobody waits, taken from who does not answer, and none is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from typing import cast

import pytest

from hhd.node.turns import BUSY_MS, Asked, Given, Taken, Turns, Word


def to_write() -> Turns:
    """The one turn to write, which `a` has used and given back before."""
    turns = Turns(at_once=1)
    assert turns.wants("a") == [Given("a", BUSY_MS, kept=False)]
    assert turns.gives("a") == []
    return turns


def test_who_comes_first_is_first_and_no_more_compute_at_once_than_may() -> None:
    turns = Turns(at_once=2)
    assert turns.wants("a") == [Given("a", 0, kept=True)]
    assert turns.wants("b") == [Given("b", BUSY_MS, kept=False)]
    assert turns.wants("c") == [Asked("a")]
    assert turns.wants("d") == []
    assert turns.gives("b") == [Given("c", BUSY_MS, kept=False)]
    assert turns.gives("a") == [Given("d", BUSY_MS, kept=False)]
    assert turns.gives("c") == turns.gives("d") == []
    assert turns.wants("a") == [Given("a", 0, kept=True)]


def test_who_is_gone_neither_keeps_a_turn_nor_gets_one() -> None:
    turns = Turns(at_once=1)
    assert turns.wants("a") and not turns.wants("b") and not turns.wants("c")
    assert turns.gives("b") == []  # It waited.
    assert turns.gives("a") == [Given("c", BUSY_MS, kept=False)]
    assert turns.gives("unknown") == []


def test_the_turn_to_write_is_kept_by_who_had_it_last_while_nobody_else_waits() -> None:
    turns = to_write()
    assert turns.wants("a") == [Given("a", BUSY_MS, kept=True)]
    assert turns.look() == turns.look() == turns.look() == []  # Nobody waits.
    assert turns.wants("b") == [Asked("a")]
    assert turns.wants("c") == []  # It was asked.
    assert turns.gives("a") == [Given("b", BUSY_MS, kept=False)]
    assert turns.wants("a") == []
    assert turns.gives("b") == [Given("c", BUSY_MS, kept=False)]
    assert turns.gives("c") == [Given("a", BUSY_MS, kept=False)]


def test_two_that_write_in_turns_are_given_it_for_once_and_nobody_is_asked() -> None:
    turns = to_write()
    for who in "bababa":
        assert turns.wants(who) == [Given(who, BUSY_MS, kept=False)]
        assert turns.gives(who) == []


def test_the_turn_of_who_keeps_it_and_is_gone_goes_to_the_first_that_waits() -> None:
    turns = to_write()
    turns.wants("a")
    turns.wants("b")
    turns.wants("c")
    assert turns.gives("a") == [Given("b", BUSY_MS, kept=False)]


def test_one_that_is_asked_and_says_nothing_is_not_waited_for() -> None:
    turns = to_write()
    turns.wants("a")
    assert turns.wants("b") == [Asked("a")]
    assert turns.look() == []
    assert turns.look() == [Taken("a"), Given("b", BUSY_MS, kept=False)]
    assert turns.wants("c") == []
    assert turns.gives("a") == []  # It goes on, and gives back what it has no more.
    assert turns.gives("b") == [Given("c", BUSY_MS, kept=False)]


def test_one_that_says_that_it_is_at_it_is_waited_for() -> None:
    turns = to_write()
    turns.wants("a")
    assert turns.wants("b") == [Asked("a")]
    turns.is_at_it("a")
    assert [turns.look() for _ in range(100)] == [[]] * 100
    assert turns.gives("a") == [Given("b", BUSY_MS, kept=False)]


def test_one_that_does_not_even_use_the_turn_that_it_waited_for_is_asked_and_then_not_waited_for() -> None:
    turns = to_write()
    assert turns.wants("b") == [Given("b", BUSY_MS, kept=False)]
    assert turns.wants("c") == []
    assert [turns.look() for _ in range(4)] == [[], [Asked("b")], [], [Taken("b"), Given("c", BUSY_MS, kept=False)]]


def test_what_one_says_that_was_asked_nothing_changes_nothing() -> None:
    turns = to_write()
    turns.is_at_it("a")
    turns.wants("b")
    turns.is_at_it("b")
    turns.is_at_it("c")
    assert turns.wants("c") == [] and turns.gives("b") == [Given("c", BUSY_MS, kept=False)]


def test_all_of_many_get_as_many_turns() -> None:
    turns, dice, had = Turns(at_once=4), random.Random(1), Counter[Hashable]()
    computing: list[Hashable] = []

    def told(words: list[Word]) -> None:
        computing.extend(word.who for word in words if isinstance(word, Given))

    for number in range(50):
        told(turns.wants(number))
    for _ in range(5000):
        who = computing.pop(dice.randrange(len(computing)))
        had[who] += 1
        told(turns.gives(who))
        told(turns.wants(who))
        assert len(computing) <= 4
    assert max(had.values()) - min(had.values()) <= 6 and len(had) == 50


@pytest.mark.parametrize("seed", range(8))
def test_whatever_workers_do_in_whatever_order_it_is_heard_each_that_lives_gets_its_turns(seed: int) -> None:
    """Words take their time both ways; one worker stops for ever, one for a while. Whoever is left is served."""
    dice = random.Random(seed)
    turns = Turns(at_once=dice.choice([1, 3]))
    workers = [_Worker(number) for number in range(5)]
    for_ever, for_a_while = dice.sample(workers, 2)
    for_ever.stops_after, for_a_while.stops_after = dice.randrange(20), dice.randrange(20)
    before = 0
    for moment in range(8_000):
        one = dice.choice(workers)
        if moment == 5_000:
            for_a_while.stops_after, before = None, for_a_while.had
        if moment % 200 == 0:
            _tell(workers, turns.look())
        elif one.said and dice.random() < 0.5:
            what = one.said.pop(0)
            if what == "at it":
                turns.is_at_it(one)
            else:
                _tell(workers, turns.wants(one) if what == "wants" else turns.gives(one))
        else:
            one.acts(dice)
    assert all(one.had >= 40 for one in workers if one.stops_after is None and one is not for_a_while)
    assert for_a_while.had >= before + 20


class _Worker:
    """As `OwnTurns`, one thing after the other."""

    def __init__(self, number: int) -> None:
        self.number, self.had = number, 0
        self.stops_after: int | None = None
        self.said: list[str] = []
        self.told: list[Word] = []
        self._turn: bool | None = None
        """Whether the turn that it has is kept; None where it has none."""
        self._wants, self._uses = False, False

    def acts(self, dice: random.Random) -> None:
        if self.stops_after is not None and self.had >= self.stops_after:
            return
        if self.told and dice.random() < 0.7:
            self._hears(self.told.pop(0))
        elif self._uses:
            self._uses = self._wants = False
            if not self._turn:
                self._turn = None
                self.said.append("gives")
        elif self._turn is not None:
            self._uses = self._wants = True
            self.had += 1
        elif not self._wants:
            self._wants = True
            self.said.append("wants")

    def _hears(self, word: Word) -> None:
        if isinstance(word, Given):
            self._turn = word.kept
        elif self._wants:
            self._turn = False if self._turn is not None else None
            self.said.append("at it")
        elif self._turn is not None:
            self._turn = None
            self.said.append("gives")


def _tell(workers: list[_Worker], words: list[Word]) -> None:
    for word in words:
        if not isinstance(word, Taken):
            workers[workers.index(cast(_Worker, word.who))].told.append(word)
