"""A line of progress is on terminals only, in place, never wider than these are now, and gone when it is over."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from hhd.app import handoffs, sessions
from hhd.base import passing
from hhd.base.errors import RefusedError
from hhd.cli import progress, run
from hhd.cli.progress import Line, Rate, beside, text

ON = {"TERM": "xterm"}


class Screen:
    """A terminal: what was written to it, and how wide it is."""

    def __init__(self) -> None:
        self.near, far = pty.openpty()
        self.target: TextIO = os.fdopen(far, "w")
        self.wide(80)

    def wide(self, columns: int) -> None:
        fcntl.ioctl(self.target.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def said(self) -> str:
        termios.tcdrain(self.target.fileno())
        os.set_blocking(self.near, False)
        said = b""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.near, 65536):
                said += piece
        return said.decode()


@pytest.fixture
def screen() -> Iterator[Screen]:
    made = Screen()
    yield made
    made.target.close()
    os.close(made.near)


def test_a_line_takes_the_place_of_the_last_and_goes_when_it_is_over(screen: Screen) -> None:
    now = [0.0]
    line = Line(screen.target, now=lambda: now[0], environ=ON)
    line.show("one")
    line.show("two")  # At once: that would flicker.
    now[0] = 1.0
    line.show("one")  # The same.
    assert screen.said() == "\rone\x1b[K"
    line.show("three")
    line.clear()
    line.clear()
    assert screen.said() == "\rthree\x1b[K\r\x1b[K"


def test_a_terminal_that_becomes_narrow_is_never_wrapped(screen: Screen) -> None:
    now = iter(range(100))
    line = Line(screen.target, now=lambda: float(next(now)), environ=ON)
    for columns in (80, 20, 3, 1):
        screen.wide(columns)
        line.show(f"{'x' * 70}{columns}")
        shown = screen.said().removeprefix("\r").removesuffix("\x1b[K")
        assert len(shown) < columns and (columns < 80 or shown.endswith("80"))


def test_pipes_and_dumb_terminals_get_nothing(screen: Screen) -> None:
    for target, environ in ((io.StringIO(), ON), (screen.target, {"TERM": "dumb"}), (screen.target, {})):
        line = Line(target, environ=environ)  # type: ignore[arg-type]
        line.show("one")
        line.clear()
        assert not line.shows and screen.said() == ""
        if isinstance(target, io.StringIO):
            assert target.getvalue() == ""
            with beside(lambda: pytest.fail("nothing is to be asked"), target):
                pass


def test_a_rate_is_of_the_last_seconds_and_never_below_nothing() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])
    assert rate.of(0) == 0.0
    for second in range(1, 21):
        now[0] = float(second)
        assert rate.of(1000 * second) == 1000.0
    now[0] = 30.0
    assert rate.of(20_000) < 1000.0
    assert rate.of(0) == 0.0, "the daemon began anew"


def test_how_much_of_how_much_is_said_and_more_than_all_is_all() -> None:
    assert text(2_500_000, 5_000_000, 1_000_000.0) == "[############............] 2.5 MB of 5.0 MB, 1.0 MB/s"
    assert text(6_000_000, 5_000_000, 0.0) == f"[{'#' * 24}] 6.0 MB of 6.0 MB"
    assert text(10, 0, 5.0) == "10 B, 5 B/s"


def test_what_goes_over_is_shown_beside_what_is_waited_for(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "ASKED_SECONDS", 0.001)
    monkeypatch.setenv("TERM", "xterm")
    asked = threading.Event()
    done = iter((0, 1000, 1000))

    def ask() -> tuple[int, int]:
        try:
            return next(done), 2000
        except StopIteration:
            asked.set()
            raise OSError("the daemon ended") from None

    with beside(ask, screen.target):
        assert asked.wait(240)
    said = screen.said()
    assert "1.0 KB of 2.0 KB" in said and said.endswith("\r\x1b[K") and said.count("\r") == 2


LONG = {
    "export": (sessions, "export_to", ["export", "s", "FILE"]),
    "import": (sessions, "import_from", ["import", "FILE"]),
    "receive": (handoffs, "receive", ["receive", "FILE"]),
    "transfer --to": (handoffs, "release_to_file", ["transfer", "s", "desktop", "--to", "FILE"]),
}


@pytest.mark.parametrize("which", LONG)
def test_each_command_on_a_file_shows_what_it_counts_and_nothing_in_a_pipe_or_for_a_script(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    where, name, words = LONG[which]
    monkeypatch.setattr(progress, "ASKED_SECONDS", 0.001)
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    seen: list[str] = []
    watched: list[bool] = []

    def long(*_: object, **__: object) -> None:
        watched.append(passing.is_watched())
        for what in ("reading", "keeping"):
            passing.begin(what, 4_000_000)
            for _ in range(1000):
                if not watched[-1] or f"{what} [" in "".join(seen):
                    break
                passing.more(1000)
                threading.Event().wait(0.001)
                seen.append(screen.said())
        raise RefusedError("That is all.")

    monkeypatch.setattr(where, name, long)
    monkeypatch.setattr(sys, "stderr", screen.target)
    assert run(words) == 3
    said = "".join(seen) + screen.said()
    assert "keeping [" in said and "MB" in said and said.replace("\r\n", "\n").endswith("\r\x1b[Khhd: That is all.\n")
    assert run([*words, "--json"]) == 3 and screen.said() == "hhd: That is all.\r\n"
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert run(words) == 3 and watched == [True, False, False]
