"""Sessions that run in the daemon: begun, heard by all who are attached, answered by one, paused, gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.attached import Daemon, daemon
from tests.e2e.lab import FIX, FIXED, needs_agent, repository, says, script, text

from hhd_protocol import live

pytestmark = needs_agent


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Daemon]:
    with daemon(tmp_path / "laptop") as one:
        yield one


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_a_session_runs_in_a_process_of_its_own_and_who_attaches_hears_all_of_it(laptop: Daemon, repo: Path) -> None:
    model = script(laptop.device.home / "s.jsonl", [*FIX, says(text("Bye."))])
    begun = laptop.runs.begin("fix it", folder=repo, model=model)
    first = laptop.attach(begun.session)
    listening = first.until(live.Listening)
    assert (repo / "doubles.py").read_text() == FIXED
    assert b"It passes now." in first.transcript
    late = laptop.attach(begun.session, position=5)
    assert late.until(live.Listening) == listening
    assert late.transcript == first.transcript[5:]
    place = first.place
    assert laptop.runs.say(begun.session, "see you", by="pts/1").how == "answer"
    first.until(live.Settled, lambda one: (one.id, one.by, one.word) == (listening.id, "pts/1", "words"))
    first.until(live.Emitted, lambda one: b"Bye." in one.piece, since=place)
    late.until(live.Emitted, lambda one: b"Bye." in one.piece)
    assert late.transcript == first.transcript[5:]
    shown = json.loads(laptop.device.hhd("show", begun.session, "--json", cwd=repo).stdout)
    assert shown["turns"] == 2
