"""SIGKILL around any save of `hhd run`: no tool runs twice, and nothing that was asked is forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import ALLOW, Device, call, needs_agent, says, script, text

pytestmark = [needs_agent, pytest.mark.parametrize("kept", ["file", "store"])]

COUNTED = [says(call("bash", command="echo x >> runs; echo one")), says(text("Done."))]
"""A tool that counts its runs."""


def killed(
    tmp_path: Path, replies: list[Any], first: int, last: int, kept: str, kind: str = "sound"
) -> list[dict[str, Any]]:
    device = Device(home=tmp_path / "laptop", config=ALLOW)
    (tmp_path / "lab").mkdir()
    model = script(tmp_path / "s.jsonl", replies)
    words = [sys.executable, "-m", "tests.e2e.killer", str(tmp_path / "lab"), model, str(first), str(last), kind, kept]
    done = subprocess.run(
        words, env=device.environ, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check(cases: list[dict[str, Any]], runs: int) -> None:
    whole, *rest = cases
    assert whole["statuses"] == [0] and whole["runs"] == runs
    for case in rest:
        assert case["runs"] == runs, f"the tool ran {case['runs']} times: {case}"
        assert case["transcript"] == whole["transcript"], case["kill"]
        assert case["statuses"][-1] == 0, case
        assert not case["left"], case


def test_killed_around_any_save_a_session_goes_on_as_if_uncut_and_its_tool_ran_once(tmp_path: Path, kept: str) -> None:
    cases = killed(tmp_path, COUNTED, 1, 0, kept)
    check(cases, runs=1)
    assert len(cases) > 20, "every save of the session was killed at, before and after"
    uncertain = [case for case in cases if 5 in case["statuses"]]
    assert {case["runs_at_kill"] for case in uncertain} == {0, 1}, "begun without and with the tool having run"


def test_the_counting_tool_shows_when_a_begun_tool_is_run_again(tmp_path: Path, kept: str) -> None:
    """The positive control of the test above: an executor that repeats what was begun."""
    cases = killed(tmp_path, COUNTED, 4, 0, kept, kind="rash")
    assert max(case["runs"] for case in cases) == 2


@pytest.mark.long
def test_killed_around_any_save_of_a_longer_session(tmp_path: Path, kept: str) -> None:
    counted = COUNTED[0]["content"][0]
    both = {
        "content": [{**counted, "id": "p1"}, call("glob", pattern="*"), {**counted, "id": "p2"}],
        "stop_reason": "tool_use",
    }
    check(killed(tmp_path, [COUNTED[0], both, COUNTED[0], says(text("Done."))], 1, 0, kept), runs=4)
