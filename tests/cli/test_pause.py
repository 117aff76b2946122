"""`hhd pause --all` says what became of each session: at work, going on by itself, or waiting for the person."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from hhd.app import sessions
from hhd.base.errors import RefusedError
from hhd.cli import pause
from hhd.node.answers.driven import Rested
from hhd.node.listed import Listed, Overview, State
from hhd_protocol.ids import DeviceId, SessionId, StatementId

HERE, THERE = DeviceId(b"h" * 32), DeviceId(b"t" * 32)


def listed(name: str, state: State, *, owner: DeviceId = HERE, archived: bool = False) -> Listed:
    session = SessionId(StatementId(name.encode() * 32))
    return Listed(id=session, title=name, state=state, owner=owner, archived=archived)


RUNS, RESTS, ALONE = listed("r", State.RUNNING), listed("p", State.PAUSED), listed("a", State.PAUSED)
ASKS = listed("w", State.WAITING)
OTHERS = (listed("o", State.WAITING, owner=THERE), listed("x", State.WAITING, archived=True))


class Runs:
    """The daemon: it refuses what a test says."""

    def __init__(self, refused: Listed | None = None) -> None:
        self.refused = refused
        self.asked: list[str] = []

    def at_work(self) -> tuple[str, ...]:
        return (ALONE.id.hex(), RUNS.id.hex())

    def pause(self, name: str) -> Rested:
        self.asked.append(name)
        if self.refused is not None and name == self.refused.id.hex():
            raise RefusedError("It is paused there.")
        state = "waiting" if name == ASKS.id.hex() else "paused"
        return Rested(session=name, state=state, sentence=f"It is {state}.")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Overview(sessions=[RESTS, RUNS, ALONE, ASKS, *OTHERS], names={}, device=HERE)
    monkeypatch.setattr(sessions, "listed", lambda *_, **__: found)


def told(runs: Runs, as_json: bool = False) -> int:
    return pause._tell(*pause._all(cast(Any, runs)), as_json)


def test_each_is_named_with_what_became_of_it_once(here: None, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs()
    assert told(runs) == 0
    assert runs.asked == [one.id.hex() for one in (RUNS, ALONE, ASKS)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [one.id.hex()[:12] for one in (RUNS, ALONE, ASKS)]
    assert all("It is paused. Go on with: hhd resume " in line for line in lines[:2])
    assert "It is waiting. Nothing of it runs. Answer: hhd attach " in lines[2]


def test_one_that_is_refused_is_said_and_costs_the_others_nothing(
    here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(Runs(RUNS), True) == 3
    said = capsys.readouterr()
    assert [one["session"] for one in json.loads(said.out)["sessions"]] == [ALONE.id.hex(), ASKS.id.hex()]
    assert said.err == "hhd: It is paused there.\n"
