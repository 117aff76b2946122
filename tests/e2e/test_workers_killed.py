"""Daemon and workers killed in any state: nothing is done twice, every session goes on or waits and says why."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.attached import Attached, Daemon, daemon, until
from tests.e2e.lab import call, needs_agent, repository, says, script, text

from hhd_protocol import live

pytestmark = needs_agent

CALLS = 4


def counted(number: int) -> dict[str, object]:
    return call("bash", command=f"echo {number} >> done; sleep 0.0{number * 3}")


def journey(home: Path, folder: Path, seed: int, kills: int, told: Callable[[str], None]) -> None:
    """Run a session to its end through `kills` of daemon or worker, each after some event; count what was done."""
    dice, repo = random.Random(seed), repository(folder)
    with daemon(home) as laptop:
        replies = [says(text(f"Now {number}."), counted(number)) for number in range(CALLS)]
        model = script(home / "s.jsonl", [*replies, says(text("All done."))])
        session = laptop.runs.begin("count", folder=repo, model=model).session
        killed = {"daemon": 0, "worker": 0, "both": 0, "settled": 0}
        heard = []
        for _ in range(kills):
            one = laptop.attach(session)
            heard.append(one)
            after(one, dice.randrange(2, 14))
            whom, workers = dice.choice(["daemon", "worker", "both"]), laptop.workers()
            if whom != "worker":
                laptop.kill()
            if whom != "daemon":
                for worker in workers:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
            if whom != "worker":
                laptop.up()
            else:
                until(lambda: not laptop.workers())
            killed[whom] += 1
            killed["settled"] += went_on(laptop, session, model, repo)
        while not at_its_end(laptop, session):
            killed["settled"] += went_on(laptop, session, model, repo)
        assert (repo / "done").read_text().split() == [str(number) for number in range(CALLS)], (seed, killed)
        last = laptop.attach(session)
        last.until(live.Listening)
        assert last.transcript.count(b"All done.") == 1
        for one in heard:  # What anybody was ever told of the transcript is durable.
            assert last.transcript.startswith(one.transcript), (seed, killed)
        told(f"journey {seed}: {killed}")


def after(one: Attached, events: int) -> None:
    """Wait for so many events, or until the session rests."""
    until(lambda: one.place > events or any(state.name != "running" for state in one.of(live.State)))


def how_it_is(laptop: Daemon, session: str) -> live.State:
    one = laptop.attach(session)
    state = one.until(live.State)
    one.close()
    return state


def at_its_end(laptop: Daemon, session: str) -> bool:
    """Wait until the session rests, or waits for words; whether it does the latter."""
    one = laptop.attach(session)
    until(lambda: one.of(live.Listening) or any(state.name != "running" for state in one.of(live.State)))
    one.close()
    return bool(one.of(live.Listening))


def went_on(laptop: Daemon, session: str, model: str, repo: Path) -> bool:
    """Do what a person does with a session that rests: go on, and settle by looking. Whether they settled."""
    state = how_it_is(laptop, session)
    if state.name == "ended":  # Whether something may have run is found when it goes on.
        assert state.sentence and state.ways
        laptop.runs.go_on(session, model=model)
        return False
    if state.status != 5:
        assert state.name == "running" or state.effect == "input", state
        return False
    uncertain = laptop.asking.connection.ask("uncertain", {"name": session, "effect": None}, changes=False)
    assert isinstance(uncertain, dict)
    number = str(uncertain["text"]).split("echo ")[1].split()[0]
    lines = (repo / "done").read_text().split() if (repo / "done").exists() else []
    laptop.runs.go_on(session, model=model, settle=("ran", "") if number in lines else ("did-not-run", ""))
    return True


@pytest.mark.parametrize("seed", [1])
def test_through_some_kills_everything_is_done_once(seed: int, tmp_path: Path, told: Callable[[str], None]) -> None:
    journey(tmp_path / "laptop", tmp_path / "repo", seed, 3, told)


@pytest.mark.long
def test_through_many_kills_everything_is_done_once(tmp_path: Path, told: Callable[[str], None]) -> None:
    for seed in range(10, 15):
        journey(tmp_path / f"laptop{seed}", tmp_path / f"repo{seed}", seed, 4, told)
