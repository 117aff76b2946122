"""`hhd run`: how soon it asks the model, and what being able to stop at any moment costs a session that works."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from tests.bench.harness import paired, percentile, process, report
from tests.loopback import messages_api as lo

from hhd.app import driving
from hhd.node import capsules
from hhd.node.capsule_file import CapsuleFile
from hhd.node.face import Nobody
from hhd.runtime.outcomes import StopFlag
from hhd_protocol.capsule import Capsule

MODEL_SECONDS = 2.0
"""A short reply of a large model takes a few seconds; the shorter it is here, the more saves weigh."""

TURNS = 3


def slow_answers() -> list[lo.Step]:
    """What a model that takes `MODEL_SECONDS` says in a short session: commands of a few milliseconds, then an end."""

    def slow(step: lo.Step) -> lo.Step:
        def act(answer: lo.Answer) -> None:
            answer.stop.wait(MODEL_SECONDS)
            step(answer)

        return act

    calls = [lo.message(lo.call("bash", command="git --version"), reason="tool_use")] * (TURNS - 1)
    return [slow(step) for step in [*calls, lo.message(lo.text("Done."))]]


def main() -> None:
    """Print all figures of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("CONFIG", "DATA", "CACHE"):
            os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
        (folder / "config").mkdir()
        (folder / "config" / "config.toml").write_text('[policy]\nallow = ["bash"]\n')
        (folder / "repo").mkdir()
        os.chdir(folder / "repo")
        first_request(folder)
        saves(folder)


def first_request(folder: Path, n: int = 15) -> None:
    """From starting `hhd run` to its first request, against importing the two large libraries it is made of."""
    with lo.serve([lambda answer: answer.stop.wait()]) as service:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        hhd = str(Path(sys.executable).with_name("hhd"))

        def run() -> None:
            seen, null = len(service.requests), subprocess.DEVNULL
            words = [hhd, "run", "hello", "--model", "m"]
            child = subprocess.Popen(words, env=environ, stdin=null, stdout=null, stderr=null)
            while len(service.requests) == seen:
                assert child.poll() is None, "it ended before it asked"
                time.sleep(0.001)
            child.kill()
            child.wait()

        measured = paired(run, process(sys.executable, "-c", "import wasmtime, anthropic"), n)
    report("hhd run, start to first model request", "hhd run hello --model m", "warm", **measured, target=2.5)


def saves(folder: Path, n: int = 5) -> None:
    """A session with its saves, against the same session with none."""
    counted: list[float] = []
    real = CapsuleFile.save

    def timed_save(self: CapsuleFile, value: Capsule) -> int:
        begin = time.perf_counter()
        length = real(self, value)
        counted.append((time.perf_counter() - begin) * 1000)
        return length

    def no_save(self: CapsuleFile, value: Capsule) -> int:
        self.capsule = value
        return 0

    def session(save: Callable[[CapsuleFile, Capsule], int]) -> Callable[[], None]:
        def run() -> None:
            with lo.serve(slow_answers()) as service, mock.patch.object(CapsuleFile, "save", save):
                os.environ |= {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
                capsule = folder / "session.hhd"
                capsules.new("agent", capsule, args={"prompt": "go"}, embed=True, force=True)
                ended = driving.go_on_with_capsule(capsule, folder=Path(), model="m", face=Nobody(), stop=StopFlag())
                assert ended.status == 0, ended.sentence

        return run

    measured = paired(session(timed_save), session(no_save), n)
    command = f"{TURNS} model calls of {MODEL_SECONDS:g} s, {TURNS - 1} commands of a few ms"
    more = {"save_median_ms": round(statistics.median(counted), 3), "save_p99_ms": round(percentile(counted, 0.99), 3)}
    per_session = len(counted) // (n + 1)
    report("session with journal and checkpoints", command, "warm", **measured, **more, saves=per_session, target=1.05)
