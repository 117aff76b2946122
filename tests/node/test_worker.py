"""What a worker tells: nothing of the transcript before it is durable, and what was heard once it is."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from hhd.effects.spend import Spend
from hhd.node import leftovers, own_turns, pair
from hhd.node.own_turns import OwnTurns
from hhd.node.worker import _Face
from hhd.runtime.outcomes import StopFlag
from hhd_protocol import live


class End:
    """The pair, as far as it is said into."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def say(self, message: Any) -> None:
        self.said.append(message)


def face() -> tuple[_Face, End, SimpleNamespace]:
    """A face of a run whose durable transcript is as long as the last says."""
    end, standing = End(), SimpleNamespace(transcript_bytes=10)
    start = cast(pair.Start, SimpleNamespace(words=("first", "second"), answers=(), linger_ms=60_000))
    one = _Face(cast(pair.End, end), start, StopFlag())
    session = SimpleNamespace(keeper=SimpleNamespace(standing=standing, intended=False))
    one._run = cast(Any, SimpleNamespace(session=session, spent=Spend(calls=1, tokens=2)))
    one._told = 10
    return one, end, standing


def test_transcript_is_told_once_it_is_durable_and_never_before() -> None:
    one, end, standing = face()
    one.emitted(b"abc")
    one.emitted(b"de")
    assert not end.said
    standing.transcript_bytes = 15
    one._saved()
    assert end.said[0] == live.Emitted(position=10, piece=b"abcde")
    standing.transcript_bytes = 18  # A step that was saved before it is told.
    one._saved()
    assert not [said for said in end.said[1:] if isinstance(said, live.Emitted)]
    one.emitted(b"fgh")
    assert end.said[-1] == live.Emitted(position=15, piece=b"fgh")


def test_words_are_heard_once_the_step_that_holds_them_is_durable() -> None:
    one, end, _ = face()
    assert one.steering() == ["first", "second"] and one.steering() == []
    assert not end.said
    one._saved()
    assert pair.Heard(count=2) in end.said
    end.said.clear()
    one._saved()
    assert pair.Heard(count=2) not in end.said and pair.Stepped() in end.said


def test_a_step_with_an_intent_says_so_and_others_do_not() -> None:
    one, end, _ = face()
    one._saved()
    assert pair.Stepped(intent=False) in end.said
    end.said.clear()
    cast(Any, one._run).session.keeper.intended = True
    one._saved()
    assert pair.Stepped(intent=True) in end.said


def test_only_a_pause_for_a_handoff_looks_at_the_folder_with_what_commands_left_ended_before() -> None:
    one, _, _ = face()
    captures = mock.Mock()
    with mock.patch.object(_Face, "_captures", return_value=captures), mock.patch.object(_Face, "_pause") as paused:
        one.listen_to(iter([pair.Pause(soft=True)]))
        assert not captures.mock_calls
        one.listen_to(iter([pair.Pause(soft=True, captures=True)]))
    assert captures.mock_calls == [mock.call.look_again(leftovers.end_children)]
    assert paused.mock_calls[::2] == [mock.call(soft=True)] * 2


def test_a_look_while_a_person_is_waited_for_captures_only_where_the_folder_differs() -> None:
    one, end, _ = face()
    captures = mock.Mock()
    with mock.patch.object(_Face, "_captures", return_value=captures), mock.patch.object(one, "_run") as run:
        one._capture_now()
    assert captures.mock_calls == [mock.call.look_again()] and run.session.flush.mock_calls == [mock.call()]
    assert end.said == [pair.Looked()]


def test_a_look_ahead_writes_no_step_and_says_nothing_and_is_not_for_one_that_is_busy() -> None:
    one, end, _ = face()
    captures = mock.Mock()
    with mock.patch.object(_Face, "_captures", return_value=captures), mock.patch.object(one, "_run") as run:
        with mock.patch.object(_Face, "_pause"):
            one.listen_to(iter([pair.Look(ahead=True)]))
        assert not one._look_ahead, "it waits for nobody"
        one._look_ahead, found = True, iter([None, "yes"])
        assert one._wait(lambda: next(found), 0) == "yes"
    assert captures.mock_calls == [mock.call.ahead()] and not run.session.flush.mock_calls
    assert pair.Looked() not in end.said


def test_a_capture_while_a_person_is_waited_for_gets_its_turn_to_write_whatever_else_is_said_before() -> None:
    one, end, _ = face()
    coming: queue.SimpleQueue[Any] = queue.SimpleQueue()
    answers: list[str] = []

    def say(message: Any) -> None:
        end.said.append(message)
        if message == pair.Wants(writes=True):
            coming.put(pair.Look())
            coming.put(pair.Turn(writes=True, busy_ms=0, kept=True))
        if message == pair.Looked():
            answers.append("yes")
            coming.put(pair.Alone())  # Something to look up for.

    def writes() -> None:
        with one.turns.used(writes=True):
            pass

    one.turns = OwnTurns(say)
    one._end = cast(pair.End, SimpleNamespace(say=say))
    captures = mock.Mock(ahead=writes)
    with (
        mock.patch.object(_Face, "_captures", return_value=captures),
        mock.patch.object(one, "_run"),
        mock.patch.object(own_turns, "TURN_SECONDS", 3600),
        mock.patch.object(_Face, "_pause"),
    ):
        one._look_ahead = True
        listens = threading.Thread(target=one.listen_to, args=(iter(coming.get, None),), daemon=True)
        found: list[str | None] = []
        waits = threading.Thread(
            target=lambda: found.append(one._wait(lambda: answers[0] if answers else None, 0)), daemon=True
        )
        listens.start()
        waits.start()
        waits.join(60)
        coming.put(None)
        listens.join(60)
    assert found == ["yes"] and not listens.is_alive()
    assert end.said == [pair.Wants(writes=True), pair.Looked()]


def test_a_look_that_comes_with_the_answer_is_answered_and_nothing_is_captured() -> None:
    one, end, _ = face()
    captures = mock.Mock()
    with mock.patch.object(_Face, "_captures", return_value=captures):
        one._look = True
        assert one._wait(lambda: "yes", 0) == "yes"
    assert end.said == [pair.Looked()] and not captures.mock_calls
