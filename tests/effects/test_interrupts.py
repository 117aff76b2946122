"""Signals as wishes: which are caught, and what stays as it was."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from hhd.effects.interrupts import SIGNALS, Interrupts


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_a_wish_and_raises_only_where_it_may(number: signal.Signals) -> None:
    wishes: list[None] = []
    interrupts = Interrupts(lambda: wishes.append(None))
    with interrupts.caught():
        os.kill(os.getpid(), number)
        assert interrupts.wished and len(wishes) == 1
        with pytest.raises(KeyboardInterrupt), interrupts.raised():
            pytest.fail("what was wished before is raised at once")


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts(lambda: None).caught():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_under_nohup_a_hang_up_pauses_nothing_and_the_others_do() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts = Interrupts(lambda: None)
    with interrupts.caught():
        os.kill(os.getpid(), signal.SIGHUP)
        assert not interrupts.wished
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.wished
