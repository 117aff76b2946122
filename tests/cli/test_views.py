"""A session that runs in the daemon, as a person and as a script see it."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.cli.screen import Screen
from hhd.cli.views import ForPerson, ForScript, last_turn
from hhd_protocol import live

LINES = [
    b'{"event":"user","from":"prompt","text":"one"}',
    b'{"event":"text","text":"first"}',
    b'{"event":"user","from":"input","text":"two"}',
    b'{"event":"user","from":"steering","text":"and more"}',
    "no event, ü \x1b[2J".encode(),
    b'{"event":"text","text":"second"}',
]
WHOLE = b"".join(line + b"\n" for line in LINES)


def attached(position: int) -> live.Attached:
    return live.Attached(session="5e" * 32, title="t", program="agent", folder="/f", position=position, by="1")


def streamed(since: int, sizes: list[int], end: int = len(WHOLE)) -> list[dict[str, Any]]:
    """What a script gets that asks from `since` on, in pieces of these sizes, until it is stopped at `end`."""
    view, at, out = ForScript(since=since), max(0, since - 1), io.StringIO()
    with contextlib.redirect_stdout(out):
        for size in [*sizes, end]:
            if piece := WHOLE[at : min(end, at + size)]:
                view.emitted_at(live.Emitted(position=at, piece=piece))
            at += len(piece)
    return [json.loads(line) for line in out.getvalue().splitlines()]


places = st.integers(0, len(WHOLE))
sizes = st.lists(st.integers(1, 40), max_size=8)


@given(st.lists(st.tuples(places, sizes), max_size=5))
def test_streams_joined_at_the_positions_they_name_are_the_whole(stops: list[tuple[int, list[int]]]) -> None:
    joined: list[dict[str, Any]] = []
    for end, pieces in [*stops, (len(WHOLE), [])]:
        joined += streamed(joined[-1]["position"] if joined else 0, pieces, end)
    assert joined == streamed(0, []) and len(joined) == len(LINES)


@given(places, sizes)
def test_from_any_byte_on_nothing_is_lost_and_only_the_first_line_is_a_rest(since: int, pieces: list[int]) -> None:
    whole = streamed(0, [])
    told = streamed(since, pieces)
    begins = [0, *[one["position"] for one in whole]]
    later = [one for one in whole if one["position"] > since]
    if since in begins:
        assert told == later
    else:
        (line,) = [WHOLE[begin:end] for begin, end in itertools.pairwise(begins) if begin < since < end]
        rest = line[since - (later[0]["position"] - len(line)) : -1].decode("utf-8", "backslashreplace")
        assert told == [{"position": later[0]["position"], "rest": rest}, *later[1:]]


def test_what_a_script_gets_is_ascii_and_every_kind_of_event_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    view = ForScript(since=0)
    view.joined(attached(0))
    view.emitted_at(live.Emitted(position=0, piece=b'{"event":"text","text":"\xc3\xbc\\u001b"}\n\xff\x1b\n'))
    view.happened(live.Words(text="\x1b]0;x\x07ü"))
    view.happened(live.Question(id="q", pages=("a\n", "b\n"), shown=b"\x01" * 32, always=""))
    out = capsys.readouterr().out
    assert out.isascii() and "\x1b" not in out
    told = [json.loads(line) for line in out.splitlines()]
    assert [next(key for key in one if key != "position") for one in told] == [
        "attached",
        "event",
        "text",
        "words",
        "question",
    ]
    assert [one["position"] for one in told] == [0, 35, 38, 38, 38]
    assert told[-1]["question"] == {"id": "q", "pages": ["a\n", "b\n"], "shown": "01" * 32, "always": ""}


# for a person


def shown(pieces: list[bytes], *, begin: int = 0, tail: bool = True) -> str:
    target = io.StringIO()
    view = ForPerson(Screen.of(target), quiet=False, tail=tail)
    view.joined(attached(begin + len(b"".join(pieces))))
    at = begin
    for piece in pieces:
        view.emitted_at(live.Emitted(position=at, piece=piece))
        at += len(piece)
    return target.getvalue()


def test_who_comes_late_sees_the_last_turn_and_is_told_of_the_rest() -> None:
    late = shown([WHOLE[:70], WHOLE[70:]])
    assert late.splitlines() == [
        "(what came before is left out; --all shows it)",
        "> two",
        "> and more",
        "no event, ü \\x1b[2J",
        "second",
    ]
    assert "> one" in shown([WHOLE], tail=False) and "left out" not in shown([WHOLE], tail=False)
    first = WHOLE[: WHOLE.index(LINES[2])]
    assert shown([first]).splitlines() == ["> one", "first"], "of one turn nothing is left out"
    cut = shown([WHOLE[-60:]], begin=1000)
    assert cut.splitlines()[0].startswith("(what") and "second" in cut and "more" not in cut


def test_a_transcript_of_any_program_has_an_end() -> None:
    assert last_turn(b"", cut=False) == b"" and last_turn(b"x" * 100, cut=True) == b"x" * 100
    assert last_turn(b"half\nwhole\n", cut=True) == b"whole\n"
