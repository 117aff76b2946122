"""The same steps on this processor and on an emulated ARM64: equal snapshots, transcripts and positions, bit by bit."""

from __future__ import annotations

import pickle
import random
import subprocess
from pathlib import Path

import pytest
from tests.arm64 import root, steps
from tests.runtime import programs
from tests.runtime.runs import echo, whole

from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Waiting

pytestmark = pytest.mark.arm64


def chain(name: str, count: int) -> tuple[list[steps.Job], list[steps.Done]]:
    """About `count` steps of a program on this processor, to its end: each begins where the one before ended."""
    rng = random.Random(name)
    wasm, args = programs.instrumented(name), programs.ARGS.get(name, b"{}")
    longest = 2 * whole(Module.load(wasm), args).checks // count
    jobs = [steps.Job(wasm, args, None, b"", False, 5)]
    dones = [steps.do(jobs[0])]
    while (last := dones[-1]).snapshot is not None:
        reply = echo(last.outcome.effect) if isinstance(last.outcome, Waiting) else jobs[-1].reply
        checks = rng.choice((1, 2, 7, *(rng.randrange(1, longest) for _ in range(7))))
        jobs.append(steps.Job(wasm, args, last.snapshot, reply, isinstance(last.outcome, Waiting), checks))
        dones.append(steps.do(jobs[-1]))
    assert not any(isinstance(done.outcome, Failed) for done in dones)
    return jobs, dones


def on_arm64(jobs: list[steps.Job], folder: Path) -> list[steps.Done]:
    file = folder / "jobs"
    file.write_bytes(pickle.dumps(jobs))
    command = root.python("-m", "tests.arm64.steps", str(file))
    done = subprocess.run(command, env=root.environment(), capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    return pickle.loads(file.with_suffix(".out").read_bytes())  # type: ignore[no-any-return]


@pytest.mark.long
def test_each_step_of_all_programs_is_the_same_there(tmp_path: Path) -> None:
    """As each step begins with a snapshot of the other processor, this holds for any way to alternate."""
    root.need()
    chains = [chain(name, 7) for name in programs.NAMES]
    jobs, dones = ([each for one in chains for each in one[side]] for side in (0, 1))
    assert len(jobs) > 60
    assert on_arm64(jobs, tmp_path) == dones


def test_a_few_steps_are_the_same_there(tmp_path: Path) -> None:
    root.need()
    jobs, dones = chain("floats and NaNs", 12)
    assert any(done.snapshot and done.snapshot.pages for done in dones)
    assert on_arm64(jobs[:4], tmp_path) == dones[:4]


@pytest.mark.long
def test_a_run_that_alternates_between_the_processors_ends_as_an_uncut_one(tmp_path: Path) -> None:
    """Also in fact, not only by the argument above: every second step is taken there, from what was made here."""
    root.need()
    wasm, args = programs.instrumented("spin"), programs.ARGS["spin"]
    uncut = steps.do(steps.Job(wasm, args, None, b"", False, 1 << 30))
    assert uncut.outcome == Finished()
    job, transcript, checks = steps.Job(wasm, args, None, b"", False, 1100), b"", 0
    for turn in range(20):
        [done] = on_arm64([job], tmp_path) if turn % 2 else [steps.do(job)]
        transcript, checks = transcript + done.transcript, checks + done.checks
        if done.snapshot is None:
            break
        job = steps.Job(wasm, args, done.snapshot, b"", False, 1100)
    assert (done.outcome, transcript, checks) == (Finished(), uncut.transcript, uncut.checks)
    assert turn >= 4
