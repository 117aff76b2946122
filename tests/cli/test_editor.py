"""A line edited key by key."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.cli import editor as module
from hhd.cli.editor import Editor

LEFT, RIGHT, HOME, END, DELETE = b"\x1b[D", b"\x1b[C", b"\x1b[H", b"\x1b[F", b"\x1b[3~"


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (b"abc", "abc"),
        (b"abd\x7fc", "abc"),
        ("äö".encode() + b"\x7f", "ä"),
        (b"make it so\x17", "make it "),
        (b"make it so\x15no", "no"),
        (b"bc" + HOME + b"a" + END + b"d", "abcd"),
        (b"ac" + LEFT + b"b", "abc"),
        (b"abc" + LEFT + LEFT + DELETE, "ac"),
        (b"abc" + LEFT + b"\x0b", "ab"),
        (b"x\x1b[1;5Cy\x1bOPz\x1b[200~", "xyz"),
        (b"\x00\x02\x1c", ""),
        (b"\xff", "\ufffd"),
        (b"\x7f" + DELETE + LEFT + b"\x17\x15", ""),
    ],
)
def test_keys_do_what_they_do_in_other_lines(typed: bytes, text: str) -> None:
    editor = Editor()
    assert editor.feed(typed) == [] and editor.text == text


def test_lines_end_and_so_does_the_input() -> None:
    editor = Editor()
    assert editor.feed(b"one\rtwo\n\r") == ["one", "two", ""]
    assert editor.feed(b"thr\x04ee") == [] and editor.text == "three", "only an empty line ends it"
    assert editor.feed(b"\x15\x04") == [None]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_it_does_not_matter_how_keys_come_in_pieces(typed: bytes, cuts: list[int]) -> None:
    whole, pieces = Editor(), Editor()
    lines = whole.feed(typed)
    found: list[str | None] = []
    places = [0, *sorted(cuts), len(typed)]
    for begin, end in itertools.pairwise(places):
        found += pieces.feed(typed[begin:end])
    assert (found, pieces.text, pieces.cursor) == (lines, whole.text, whole.cursor)
    assert 0 <= whole.cursor <= len(whole.text)


def test_a_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_CHARS_MAX", 5)
    editor = Editor()
    editor.feed(b"abcdefg")
    assert editor.text == "abcde"
    assert editor.feed(b"\x1b[" + b"1" * 100 + b"\r") == ["abcde"], "what is no key does not swallow the rest"
