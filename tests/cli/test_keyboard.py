"""Lines from standard input, be it a terminal, a pipe or nothing."""

from __future__ import annotations

import io
import os
import pty

import pytest

from hhd.cli.keyboard import Keyboard
from hhd.cli.paint import Paper


def keyboard(raw: bytes, fd: int | None = None) -> tuple[Keyboard, io.StringIO]:
    if fd is None:
        fd, end = os.pipe()
        os.write(end, raw)
        os.close(end)
    screen = io.StringIO()
    return Keyboard(fd=fd, paper=Paper.of(screen)), screen


def test_lines_of_a_pipe_are_read_one_by_one_and_recorded() -> None:
    keys, screen = keyboard(b"yes\r\n\nlast")
    assert [keys.line("? ") for _ in range(4)] == ["yes", "", "last", None]
    assert screen.getvalue() == "? yes\n? \n? last\n? \n"


def test_nothing_at_all_is_nobody() -> None:
    keys, _ = keyboard(b"")
    assert keys.line("? ") is None and keys.line("? ") is None and keys.typed() == []


def test_a_pipe_answers_questions_to_come_and_steers_nothing() -> None:
    keys, _ = keyboard(b"y\n")
    assert keys.typed() == [] and keys.line("? ") == "y"


def test_what_is_no_text_is_still_a_line_and_safe_on_the_screen() -> None:
    keys, screen = keyboard(b"\xff\x1b[2J\n")
    assert keys.line("? ") == "\ufffd\x1b[2J"
    assert "\x1b" not in screen.getvalue()


def test_what_was_typed_meanwhile_at_a_terminal_is_given_once_and_in_order() -> None:
    person, theirs = pty.openpty()
    keys, _ = keyboard(b"", theirs)
    assert keys.typed() == []
    os.write(person, b"one\n\ntwo\nhal")
    found: list[str] = []
    while len(found) < 2:
        found += keys.typed()
    assert found == ["one", "two"]
    os.write(person, b"f\n")
    assert keys.line("") == "half"
    os.close(person)
    assert keys.line("") is None, "a terminal that hung up is nobody"
    os.close(theirs)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_interrupting_a_wait_loses_no_line(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, _ = keyboard(b"kept\n")
    real, calls = os.read, iter(range(10))

    def read(fd: int, size: int) -> bytes:
        if next(calls) < count:
            raise KeyboardInterrupt
        return real(fd, size)

    monkeypatch.setattr(os, "read", read)
    for _ in range(count):
        with pytest.raises(KeyboardInterrupt):
            keys.line("? ")
    assert keys.line("? ") == "kept"
