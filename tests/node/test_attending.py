"""A terminal's end of a running session: each byte once, over any number of connections."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.base.errors import RefusedError, UserError
from hhd.control.client import GoneError
from hhd.node.attending import Attending, Over, Told
from hhd_protocol import live
from hhd_protocol.control import Answer, End, Event, Failed

TEXT = bytes(range(64))


class Talk:
    """A connection whose daemon says what a test wants."""

    def __init__(self, *said: Any) -> None:
        self.said, self.asked, self.closed, self.unread = list(said), list[tuple[str, Any]](), False, False

    def begin(self, verb: str, arguments: Any) -> int:
        self.asked.append((verb, arguments))
        return len(self.asked) - 1

    def arrived(self) -> list[Any]:
        if not self.said:
            raise GoneError("The daemon has ended.")
        return self.said.pop(0)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed = True


def attached(position: int = len(TEXT)) -> Event:
    event = live.Attached(session="5e" * 32, title="t", program="agent", folder="", position=position, by="pts/1")
    return Event(0, 0, live.encoded(event))


def piece(begin: int, end: int) -> Event:
    return Event(0, 0, live.encoded(live.Emitted(position=begin, piece=TEXT[begin:end])))


def ending(*talks: Talk, position: int | None = 0) -> Attending:
    rest = iter(talks)
    return Attending(lambda: next(rest), "parser", position=position, by="pts/1")  # type: ignore[arg-type, return-value]


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, 20), st.integers(1, 30)), max_size=6))
def test_bytes_come_once_and_in_order_however_often_it_connects_anew(cuts: list[tuple[int, int, int]]) -> None:
    """Each connection may begin some bytes before where it was asked to, and end anywhere."""
    end, heard = ending(*(Talk() for _ in range(len(cuts) + 1))), b""
    for reach, before, size in [*cuts, (64, 3, 7)]:
        assert end.attach()
        talk: Any = end._talk
        assert talk.asked[0][1]["position"] == end.position == len(heard)
        begin = max(0, len(heard) - before)
        places = [*range(begin, max(begin, reach), size), max(begin, reach)]
        talk.said = [[attached()], [piece(*two) for two in itertools.pairwise(places)], [End(0)]]
        with pytest.raises(Over):
            while True:
                heard += b"".join(event.piece for event in end.arrived() if isinstance(event, live.Emitted))
    assert heard == TEXT


@pytest.mark.parametrize(
    "said",
    [
        [attached(), piece(5, 9)],  # A gap.
        [piece(0, 5), attached()],
        [attached(), attached()],
        [attached(), Answer(7, True)],
        [attached(), Event(0, 0, {"unknown": {}})],
        [attached(), Event(3, 0, "of another stream")],
    ],
)
def test_what_cannot_be_ends_it(said: list[Any]) -> None:
    end = ending(Talk(said))
    assert end.attach()
    with pytest.raises(UserError, match="none that this hhd knows"):
        end.arrived()


def test_what_was_asked_is_answered_and_a_session_is_named_by_its_id_from_then_on() -> None:
    rested = {"session": "5e" * 32, "state": "paused", "sentence": "Paused."}
    talk = Talk([attached()], [Failed(1, "Too much.", 3), Answer(2, rested)], [End(0)])
    end = ending(talk, position=None)
    assert end.attach()
    end.arrived()
    end.say("hello")
    end.pause()
    said, paused = end.arrived()
    assert isinstance(said, Told) and isinstance(said.error, RefusedError) and said.verb == "say"
    assert isinstance(paused, Told) and paused.answer is not None and vars(paused.answer) == rested
    assert talk.asked[1] == ("say", {"name": "5e" * 32, "text": "hello", "by": "pts/1"})
    assert end.position == len(TEXT), "of what was there before, nothing was wanted"


def test_who_is_refused_hears_why_and_who_was_attached_that_it_is_over() -> None:
    end = ending(Talk([Failed(0, "There is no session.", 3)]))
    assert end.attach()
    with pytest.raises(RefusedError, match="no session"):
        end.arrived()
    end = ending(Talk([attached(), Failed(0, "The daemon is ending.", 3)]))
    assert end.attach() and end.arrived() and end.unread
    with pytest.raises(Over):
        end.arrived()


def test_who_leaves_waits_for_what_they_said_and_for_no_more_than_that() -> None:
    talk = Talk([attached()], [piece(0, 10)], [Failed(1, "Too much.", 3)], [Answer(2, True)], [piece(10, 20)])
    talk.unread = True
    end = ending(talk)
    assert end.attach()
    end.arrived()
    end.say("go")
    end.keys("y")
    end.heard(0)
    assert len(talk.said) == 2, "all up to the answer to what was said"
    end.heard(0)
    assert len(talk.said) == 2, "of keys nothing is waited for"
