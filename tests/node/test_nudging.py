"""A session in a process of its own is listed as running from the start, and the daemon hears of each step at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hhd.base.errors import RefusedError
from hhd.control.client import GoneError
from hhd.node import listing, nudging
from hhd.node.ended import End, Ended
from hhd.node.face import Face
from hhd.node.listed import State
from hhd.node.nudging import TRIES_APART, UNANSWERED_MAX, Nudge
from hhd.node.run import Run
from hhd.node.workbench import opened
from hhd.runtime.outcomes import StopFlag
from hhd_protocol.ids import SessionId, StatementId

SESSION = SessionId(StatementId(b"s" * 32))


class Daemon:
    """What stands in for a daemon: it answers as many as a test says."""

    def __init__(self) -> None:
        self.told: list[bool] = []
        self.answers, self.gone, self.connections = 0, False, 0

    def connect(self) -> Any:
        self.connections += 1
        return None if self.gone else self

    def begin(self, verb: str, arguments: dict[str, object]) -> int:
        assert verb == "sync_stepped" and set(arguments) == {"session", "intent"}
        self.told.append(bool(arguments["intent"]))
        return len(self.told)

    def arrived(self) -> list[object]:
        if self.gone:
            raise GoneError("It ended.")
        came, self.answers = [object()] * self.answers, 0
        return came

    def close(self) -> None:
        pass


def test_each_step_is_told_and_a_daemon_that_does_not_answer_is_told_no_more_than_a_few() -> None:
    daemon = Daemon()
    nudge = Nudge(SESSION, daemon.connect)
    nudge.stepped(intent=True)
    nudge.stepped(intent=False)
    assert daemon.told == [True, False] and daemon.connections == 1
    for _ in range(2 * UNANSWERED_MAX):
        nudge.stepped(intent=True)
    assert len(daemon.told) == UNANSWERED_MAX
    daemon.answers = UNANSWERED_MAX
    nudge.stepped(intent=True)
    assert len(daemon.told) == UNANSWERED_MAX + 1


def test_where_no_daemon_runs_it_is_looked_for_when_something_begins_and_else_now_and_then() -> None:
    daemon = Daemon()
    daemon.gone = True
    nudge = Nudge(SESSION, daemon.connect)
    for _ in range(TRIES_APART):
        nudge.stepped(intent=False)
    assert daemon.connections == 1 and not daemon.told
    nudge.stepped(intent=True)
    assert daemon.connections == 2
    daemon.gone = False
    nudge.stepped(intent=True)
    assert daemon.told == [True]
    daemon.gone = True
    nudge.stepped(intent=True)
    daemon.gone = False
    nudge.stepped(intent=True)
    assert daemon.told == [True, True], "the next daemon is found"


def test_a_daemon_that_hangs_is_not_waited_for_at_each_step() -> None:
    daemon, hangs = Daemon(), True

    def connect() -> Any:
        found = daemon.connect()
        if hangs:
            raise RefusedError("The daemon has not answered for 10 seconds.")
        return found

    nudge = Nudge(SESSION, connect)
    for _ in range(TRIES_APART):
        nudge.stepped(intent=True)
    assert daemon.connections == 1
    for _ in range(2):
        nudge.stepped(intent=True)
    assert daemon.connections == 2
    hangs = False
    for _ in range(TRIES_APART + 1):
        nudge.stepped(intent=True)
    assert daemon.told == [True] and daemon.connections == 3, "it answers again"
    nudge.close()
    nudge.stepped(intent=True)
    assert daemon.connections == 4, "and is tried as before"


def test_a_session_in_the_foreground_is_shown_as_running_before_its_first_step_and_its_steps_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, seen = Daemon(), list[State]()
    monkeypatch.setattr(nudging, "_talk", daemon.connect)
    with opened() as bench:
        session = bench.create("go", folder=tmp_path, once=True)

        def shown() -> State:
            entry = listing.get(bench.store, session)
            assert entry is not None
            return listing.now(entry, bench.store).state

        def go(run: Run) -> Ended:
            seen.append(shown())
            run.session.on_saved()
            keeper: Any = run.session.keeper
            keeper.intended = True
            run.session.on_saved()
            return Ended(end=End.INTERRUPTED, status=0)

        monkeypatch.setattr(Run, "go", go)
        assert shown() is State.PAUSED
        face: Any = type("Quiet", (), {name: lambda *_: None for name in Face.__dict__ if not name.startswith("_")})()
        bench.go_on(session, folder=tmp_path, model="scripted:demo", face=face, stop=StopFlag())
        assert seen == [State.RUNNING] and shown() is State.PAUSED
        assert daemon.told == [False, True]
