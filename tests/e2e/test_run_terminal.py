"""`hhd run` at a terminal: colours, questions answered by typing, words heard while it works, Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.lab import ALLOW, FIX, FIXED, Device, call, needs_agent, repository, says, script, text, transcript

pytestmark = needs_agent

SECONDS_MAX = 100.0
"""A bound on waiting for what must come, on a machine that may be busy; nothing is asserted about it."""


class Terminal:
    """The person's side of a pseudo-terminal."""

    def __init__(self, fd: int) -> None:
        self.fd, self.screen = fd, ""

    def wait(self, words: str) -> str:
        """Read until `words` are on the screen, and return all of it so far."""
        end = time.monotonic() + SECONDS_MAX
        while words not in self.screen:
            assert time.monotonic() < end, f"{words!r} never came:\n{self.screen}"
            if not self.read():
                raise AssertionError(f"it ended before {words!r}:\n{self.screen}")
        return self.screen

    def read(self) -> bool:
        if not select.select([self.fd], [], [], SECONDS_MAX)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            return False
        self.screen += piece.decode("utf-8", "replace")
        return bool(piece)

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def rest(self) -> str:
        while self.read():
            pass
        return self.screen


@contextmanager
def at_terminal(device: Device, *words: str | Path, cwd: Path) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    person, theirs = pty.openpty()
    environ = {"TERM": "xterm", **device.environ}
    process = subprocess.Popen(
        ["setsid", "-c", *device.command(*words)], cwd=cwd, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        yield Terminal(person), process
        process.wait(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
        os.close(person)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_a_person_answers_questions_and_says_what_is_next(tmp_path: Path, repo: Path) -> None:
    laptop = Device(home=tmp_path / "laptop")
    model = script(tmp_path / "s.jsonl", [*FIX, says(text("You are welcome."))])
    words = ("run", "fix it", "--model", model, "-o", tmp_path / "c.hhd")
    with at_terminal(laptop, *words, cwd=repo) as (terminal, process):
        terminal.wait("q = later: ")
        terminal.type("y\n")
        while terminal.screen.count("q = later: ") < 2:
            assert terminal.read()
        terminal.type("y\n")
        terminal.wait("It passes now.")
        terminal.wait("\x1b[1m> \x1b[0m")
        terminal.type("thanks\n")
        terminal.wait("You are welcome.")
        terminal.type("\x04")
        screen = terminal.rest()
    assert process.returncode == 0
    assert (repo / "doubles.py").read_text() == FIXED
    assert "\x1b[36m* edit doubles.py\x1b[0m" in screen and "\x1b[32m" in screen
    assert screen.count("thanks") == 1, "what was typed is not printed again"
    assert not re.sub(r"\x1b\[[0-9;]*m", "", screen).count("\x1b"), "colours and nothing else"


def test_no_color_means_none(tmp_path: Path, repo: Path) -> None:
    laptop = Device(home=tmp_path / "laptop", config=ALLOW, environ={"NO_COLOR": "1"})
    model = script(tmp_path / "s.jsonl", FIX)
    with at_terminal(laptop, "run", "fix it", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo) as (terminal, _):
        terminal.wait("It passes now.")
        terminal.type("\x04")
        screen = terminal.rest()
    assert "\x1b" not in screen


def test_what_is_typed_while_it_works_is_heard_at_its_next_step(tmp_path: Path, repo: Path) -> None:
    laptop = Device(home=tmp_path / "laptop", config=ALLOW)
    os.mkfifo(repo / "gate")
    os.mkfifo(repo / "begun")
    waits = says(call("bash", command="echo > begun; cat gate"))
    model = script(tmp_path / "s.jsonl", [waits, says(text("I heard."))])
    with at_terminal(laptop, "run", "wait", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo) as (terminal, _):
        with open(repo / "begun") as begun:
            begun.read()
        terminal.type("use tabs, please\n")
        terminal.wait("use tabs, please")
        (repo / "gate").write_text("open\n")
        terminal.wait("I heard.")
        terminal.type("\x04")
        terminal.rest()
    said = [
        (event["from"], event["text"]) for event in transcript(laptop, tmp_path / "c.hhd") if event["event"] == "user"
    ]
    assert said == [("prompt", "wait"), ("steering", "use tabs, please")]


def test_ctrl_c_at_a_question_leaves_it_pending(tmp_path: Path, repo: Path) -> None:
    laptop = Device(home=tmp_path / "laptop")
    model = script(tmp_path / "s.jsonl", FIX)
    with at_terminal(laptop, "run", "x", "--model", model, "-o", tmp_path / "c.hhd", cwd=repo) as (terminal, process):
        terminal.wait("q = later: ")
        terminal.type("\x03")
        screen = terminal.rest()
    assert process.returncode == 0 and "Paused. Go on with: hhd capsule run" in screen
    (laptop.home / "config" / "config.toml").write_text(ALLOW)
    done = laptop.hhd("capsule", "run", tmp_path / "c.hhd", "--model", model, cwd=repo)
    assert done.returncode == 0 and (repo / "doubles.py").read_text() == FIXED
