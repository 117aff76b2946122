"""A worker's turns: asked for once while nobody else waits, given back when asked, and never held by one that rests."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from hhd.node import own_turns, pair
from hhd.node.own_turns import OwnTurns
from hhd.node.turns import Asked, Given, Turns, Word

WANTS, GIVES, AT_IT = pair.Wants(writes=True), pair.Gives(writes=True), pair.AtIt(writes=True)


def of_one(*given: pair.Turn) -> tuple[OwnTurns, list[Any]]:
    """A worker that is given these turns as it asks for them, and what it said."""
    said: list[Any] = []
    left = list(given)

    def say(message: Any) -> None:
        said.append(message)
        if message == WANTS and left:
            turns.given(left.pop(0))

    turns = OwnTurns(say)
    return turns, said


def turn(*, kept: bool, busy_ms: int = 0) -> pair.Turn:
    return pair.Turn(writes=True, busy_ms=busy_ms, kept=kept)


def test_a_turn_that_is_kept_is_asked_for_once_and_another_each_time() -> None:
    kept, said = of_one(turn(kept=True, busy_ms=7))
    for _ in range(3):
        with kept.used(writes=True) as busy_ms:
            assert busy_ms == 7
    assert said == [WANTS]
    each, said = of_one(*[turn(kept=False)] * 3)
    for _ in range(3):
        with each.used(writes=True):
            pass
    assert said == [WANTS, GIVES] * 3


def test_a_turn_that_is_not_used_goes_back_in_the_moment_in_which_it_is_asked_for() -> None:
    turns, said = of_one(turn(kept=True), turn(kept=True))
    with turns.used(writes=True):
        pass
    turns.asked(writes=False)  # The other one.
    assert said == [WANTS]
    turns.asked(writes=True)
    turns.asked(writes=True)
    assert said == [WANTS, GIVES]
    with turns.used(writes=True):
        assert said == [WANTS, GIVES, WANTS]


def test_a_turn_that_is_used_goes_back_after_that_and_the_daemon_hears_that_it_will() -> None:
    turns, said = of_one(turn(kept=True))
    with turns.used(writes=True):
        turns.asked(writes=True)
        assert said == [WANTS, AT_IT]
    assert said == [WANTS, AT_IT, GIVES]


def test_one_whose_session_rests_has_no_turn_and_one_that_is_at_it_keeps_it() -> None:
    turns, said = of_one(turn(kept=True))
    with turns.used(writes=True):
        turns.rest()
        assert said == [WANTS]
    turns.rest()
    turns.rest()
    assert said == [WANTS, GIVES]


def test_a_turn_goes_back_where_what_it_was_used_for_fails() -> None:
    turns, said = of_one(turn(kept=False), turn(kept=True))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), turns.used(writes=True):
            raise KeyboardInterrupt
    assert said == [WANTS, GIVES, WANTS]
    turns.asked(writes=True)
    assert said[-1] == GIVES


def test_who_is_struck_while_it_waits_wants_it_no_more_and_what_comes_then_is_not_taken() -> None:
    said: list[Any] = []

    def say(message: Any) -> None:
        said.append(message)
        if message == WANTS and said.count(WANTS) == 1:
            raise KeyboardInterrupt

    turns = OwnTurns(say)
    with pytest.raises(KeyboardInterrupt), turns.used(writes=True):
        raise AssertionError
    turns.given(turn(kept=True))
    assert said == [WANTS, GIVES]
    turns.end()
    with turns.used(writes=True):
        assert said == [WANTS, GIVES, WANTS]


def test_who_waited_long_or_has_no_daemon_or_needs_none_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, said = of_one()
    with turns.used(writes=True, needless=lambda: True) as busy_ms:
        assert busy_ms == 0
    monkeypatch.setattr(own_turns, "TURN_SECONDS", 0.0)
    with turns.used(writes=True):
        turns.given(turn(kept=False))  # Too late.
    monkeypatch.setattr(own_turns, "TURN_SECONDS", 3600.0)
    turns.end()
    with turns.used(writes=True):
        pass
    assert said == [WANTS, GIVES] * 3


def test_a_wake_has_it_looked_at_again_whether_a_turn_is_needed() -> None:
    turns, stop, waits = OwnTurns(lambda _: waits.set()), threading.Event(), threading.Event()
    went = threading.Thread(target=lambda: turns.used(writes=False, needless=stop.is_set).__enter__())
    went.start()
    assert waits.wait(60)
    stop.set()
    turns.wake()
    went.join(60)
    assert not went.is_alive()


def test_of_many_at_work_one_writes_at_a_time_and_all_come_to_their_end() -> None:
    """The two ends together, each worker with a thread that listens, as in its process."""
    daemon, here, writing = Turns(at_once=1), threading.Lock(), threading.Lock()
    told: list[queue.SimpleQueue[Word | None]] = [queue.SimpleQueue() for _ in range(3)]
    said, together = Counter[str](), 0

    def say(number: int, message: Any) -> None:
        with here:
            said[type(message).__name__] += 1
            if message == AT_IT:
                daemon.is_at_it(number)
            for word in daemon.wants(number) if message == WANTS else daemon.gives(number) if message == GIVES else ():
                assert isinstance(word.who, int)
                told[word.who].put(word)

    workers = [OwnTurns(partial(say, number)) for number in range(3)]

    def listens(number: int) -> None:
        while (word := told[number].get()) is not None:
            if isinstance(word, Given):
                workers[number].given(turn(kept=word.kept))
            elif isinstance(word, Asked):
                workers[number].asked(writes=True)

    def works(number: int) -> None:
        nonlocal together
        for _ in range(200):
            with workers[number].used(writes=True):
                if not writing.acquire(blocking=False):
                    together += 1
                    continue
                time.sleep(0)  # Whoever else is let in comes in now.
                writing.release()

    both = [threading.Thread(target=act, args=(n,), daemon=True) for act in (works, listens) for n in range(3)]
    for one in both:
        one.start()
    for one in both[:3]:
        one.join(60)
    for listened in told:
        listened.put(None)
    for one in both:
        one.join(60)
    assert not any(one.is_alive() for one in both) and not together
    assert 3 <= said["Wants"] <= 600 and said["Gives"] >= said["Wants"] - 1
