"""Who is attached: each is told all that counts, however slowly it takes it, and nobody waits for anybody."""

from __future__ import annotations

import asyncio
import random

import pytest

from hhd.base.errors import RefusedError
from hhd.node.live import Audience, Seat, named
from hhd_protocol import live
from hhd_protocol.limits import LIVE_ATTACHED_MAX, LIVE_BY_BYTES_MAX, LIVE_WAITING_BYTES_MAX, LIVE_WAITING_EVENTS_MAX


def taken(seat: Seat) -> list[live.Event | None]:
    """What waits for a seat."""

    async def take() -> list[live.Event | None]:
        found = []
        while seat._queue or seat._behind:
            found.append(await seat.next())
        return found

    return asyncio.run(take())


def question(number: int) -> live.Question:
    return live.Question(id=str(number), pages=("?",), shown=bytes(32), always="")


def state(name: str) -> live.State:
    return live.State(name=name, sentence="", ways=(), effect="", status=0)


def test_what_is_told_comes_in_order() -> None:
    audience = Audience()
    seat = audience.sit("one")
    events = [live.Words(text="a"), live.Emitted(position=0, piece=b"x"), question(1), state("waiting")]
    for event in events:
        audience.tell(event)
    assert taken(seat) == events


def test_one_that_takes_nothing_loses_what_is_of_its_moment_and_knows_it_is_behind() -> None:
    audience = Audience()
    slow, quick = audience.sit("slow"), audience.sit("quick")
    dice, told = random.Random(4), 0
    audience.tell(question(0))
    audience.tell(live.Settled(id="earlier", by="x", word="yes"))
    for number in range(1, 5000):
        audience.tell(live.Words(text="w" * dice.randrange(1, 2000)))
        audience.tell(live.Emitted(position=number, piece=b"x"))
        audience.tell(question(number))
        audience.tell(live.Settled(id=str(number), by="x", word="yes"))
        told += len(taken(quick))
        assert len(slow._queue) <= LIVE_WAITING_EVENTS_MAX and slow._bytes <= LIVE_WAITING_BYTES_MAX + 4096
    audience.tell(state("finished"))
    assert told >= 4 * 4900  # The quick one lost nothing, or next to nothing.
    left = taken(slow)
    assert left[0] is None  # The transcript is to be read again.
    missed = left[1]
    assert isinstance(missed, live.Missed) and missed.events > 3000
    assert question(0) in left and live.Settled(id="earlier", by="x", word="yes") in left
    assert left[-1] == state("finished")
    for number in range(1, 3000):  # What was asked and settled while it took nothing is not told at all.
        assert question(number) not in left


def test_events_of_any_size_stay_within_the_bounds() -> None:
    seat = Seat("one")
    for number in range(3000):
        seat.put(live.Settled(id=str(number), by="x", word=""))
        seat.put(state("running"))
        seat.put(live.Spent(calls=number, tokens=0))
    assert len(seat._queue) <= LIVE_WAITING_EVENTS_MAX
    assert taken(seat)[-1] == live.Spent(calls=2999, tokens=0)


def test_who_attaches_late_hears_how_things_are_before_what_comes() -> None:
    audience = Audience()
    audience.tell(live.Words(text="I will "))
    audience.tell(live.Words(text="look"))
    assert audience.words_so_far == "I will look"
    seat = audience.sit("late")
    audience.tell(state("running"))
    audience.tell(live.Emitted(position=0, piece=b"x"))
    assert audience.words_so_far == ""
    seat.begin([state("waiting"), question(3)])
    assert taken(seat) == [state("waiting"), question(3), live.Emitted(position=0, piece=b"x")]


def test_a_name_is_bounded_and_safe_to_print_and_who_types_does_not_hear_it() -> None:
    assert len(named("ü" * 500).encode()) <= LIVE_BY_BYTES_MAX
    assert "\x1b" not in named("a\x1b[31mb") and "\n" not in named("a\nb")
    audience = Audience()
    one, other, unnamed = audience.sit("one"), audience.sit("other"), audience.sit("")
    assert unnamed.by == "terminal 3"
    audience.tell(live.Keys(by="one", line="x"), but="one")
    assert taken(one) == [] and len(taken(other)) == len(taken(unnamed)) == 1


def test_no_more_are_attached_than_may_be() -> None:
    audience = Audience()
    seats = [audience.sit("") for _ in range(LIVE_ATTACHED_MAX)]
    with pytest.raises(RefusedError):
        audience.sit("")
    audience.leave(seats[0])
    assert audience.sit("")


def test_one_who_waits_for_something_hears_that_it_was_ended() -> None:
    async def go() -> None:
        audience = Audience()
        seat = audience.sit("one")
        waits = asyncio.ensure_future(seat.next())
        await asyncio.sleep(0)
        assert not waits.done()
        audience.end()
        assert await waits is None and seat.over

    asyncio.run(go())
