"""A session of a device that just woke: its next command waits for what the others know, and a pause ends the wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import Person
from tests.node.stored import Laptop

from hhd.base.paths import config_folder, private_folder
from hhd.node import opening, pair, worker
from hhd.node.doors import Doors
from hhd.node.ended import End, Ended
from hhd.runtime.outcomes import StopFlag
from hhd.store.check import Check
from hhd_protocol.holding import Refusal, Why
from hhd_protocol.ids import SessionId
from hhd_protocol.journal import State

pytestmark = needs_agent

WAKING = Refusal(why=Why.WAKING, until_ms=10_000)
LOOKS_MAX = 20
"""One who has not noticed by then waits until the others answer."""


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path, script=[says(call("bash", command="echo x >> runs")), says(text("Done."))])
    config = '[policy]\nallow = ["bash"]\n[policy.sandbox]\nuse = "off"\n'
    (private_folder(config_folder()) / "config.toml").write_text(config)
    made.here()  # Its script is written.
    yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


EFFECTS = pytest.mark.parametrize(("op", "before"), [("machine", 0), ("model", 2), ("tool", 3)])
"""The effect that waits, and how many begin before it."""


def go(laptop: Laptop, session: SessionId, stop: StopFlag, op: str = "") -> Ended:
    """As a worker does; `op`: what it stands before, if it is interrupted."""
    with opening.stored(
        laptop.store,
        laptop.me,
        session,
        folder=laptop.repo,
        model=f"scripted:{laptop.folder / 's.jsonl'}",
        face=Person(),
        stop=stop,
    ) as run:
        ended = run.go()
        if ended.end is End.INTERRUPTED:
            pending = run.session.standing.journal.pending
            assert pending is not None and (pending.op, pending.state) == (op, State.ASKED)
        return ended


@EFFECTS
def test_a_pause_ends_the_wait_of_who_woke_at_once_and_the_effect_runs_when_it_goes_on(
    laptop: Laptop, op: str, before: int
) -> None:
    session, stop = laptop.create(), StopFlag()
    looks = 0

    def waits(_: Doors) -> Refusal | None:
        nonlocal looks
        looks += 1
        assert looks < LOOKS_MAX, "it waits on, although it is to pause"
        if looks == before + 3:  # It waits, indeed, when the wish comes.
            stop.set()
        return WAKING if looks > before else None

    with mock.patch.object(Doors, "waits", waits), mock.patch("hhd.node.stored_session.WAKE_LOOK_SECONDS", 0):
        ended = go(laptop, session, stop, op)
    assert (ended.end, ended.sentence) == (End.INTERRUPTED, "Paused.")
    assert looks == before + 3 and not (laptop.repo / "runs").exists()
    go(laptop, session, StopFlag())
    assert (laptop.repo / "runs").read_text() == "x\n"


@EFFECTS
def test_without_a_pause_it_waits_until_the_others_answered_and_then_runs(laptop: Laptop, op: str, before: int) -> None:
    session = laptop.create()
    answers = [None] * before + [WAKING] * 5 + [None]

    def waits(_: Doors) -> Refusal | None:
        assert not answers or not (laptop.repo / "runs").exists()
        return answers.pop(0) if answers else None

    with mock.patch.object(Doors, "waits", waits), mock.patch("hhd.node.stored_session.WAKE_LOOK_SECONDS", 0):
        go(laptop, session, StopFlag())
    assert answers == [] and (laptop.repo / "runs").read_text() == "x\n"


@EFFECTS
def test_a_link_that_comes_or_goes_after_it_was_asked_makes_it_wait_again_and_ends_nothing(
    laptop: Laptop, op: str, before: int
) -> None:
    session, asked, really = laptop.create(), 0, Doors.may_start

    def may_start(doors: Doors, *saying: Any) -> Refusal | None:
        nonlocal asked
        asked += 1
        return WAKING if before < asked <= before + 3 else really(doors, *saying)

    with mock.patch.object(Doors, "may_start", may_start):
        ended = go(laptop, session, StopFlag())
    assert ended.end is End.WAITING and asked == 8, "five effects began, and one of them was asked about four times"
    assert (laptop.repo / "runs").read_text() == "x\n"


def test_where_nobody_answers_the_process_says_that_it_is_alone_and_goes_on_another_time(laptop: Laptop) -> None:
    session, said = laptop.create(), list[pair.Over]()
    end = SimpleNamespace(say=lambda word: said.append(word) if isinstance(word, pair.Over) else None)

    def driven(*_: object) -> Ended:
        return go(laptop, session, StopFlag())

    start = cast(pair.Start, SimpleNamespace(words=(), answers=()))
    with (
        mock.patch.object(worker, "_driven", driven),
        mock.patch.object(worker.signal, "signal"),
        mock.patch.object(worker._Face, "listen_to"),
        mock.patch.object(worker._Face, "beat"),
        mock.patch.object(worker.leftovers, "end_children"),
    ):
        with mock.patch.object(Doors, "may_start", lambda *_: Refusal(why=Why.ALONE)):
            worker._begun(cast(pair.End, end), iter(()), start, None)
        assert [one.end for one in said] == ["alone"] and "answered" in said[0].sentence
        assert not (laptop.repo / "runs").exists()
        worker._begun(cast(pair.End, end), iter(()), start, None)
    assert said[1].end == "waiting" and (laptop.repo / "runs").read_text() == "x\n"
