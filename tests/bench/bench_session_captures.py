"""A session that works in a repository: what capturing its files after each command costs it."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from tests.bench.bench_run import MODEL_SECONDS
from tests.bench.bench_sessions import in_store
from tests.bench.harness import paired, percentile, report
from tests.loopback import messages_api as lo

from hhd.node.captures import Captures

COMMAND = "python -m tests.bench session_captures"
FILES = 2000
"""A repository of the usual size, of small files."""
TURNS = 4


def main() -> None:
    """Print both figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("CONFIG", "DATA", "CACHE"):
            os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
        (folder / "config").mkdir()
        (folder / "config" / "config.toml").write_text('[policy]\nallow = ["bash"]\n[model]\ncalls_max = 100000\n')
        os.chdir(_repository(folder / "repo"))
        _session("a session that writes a file with each command, captured / not", MODEL_SECONDS, n=3)
        _session("the same with a model that answers at once", 0.0, n=5)


def _session(figure: str, seconds: float, n: int) -> None:
    """Pairs of a session with captures and one without; a command follows the one before after `seconds`."""
    first: list[float] = []
    later: list[float] = []
    real = Captures.take

    def timed(self: Captures, *, pause: bool) -> None:
        before, begin = self.workspace, time.perf_counter()
        real(self, pause=pause)
        if self.workspace != before:
            (later if before else first).append((time.perf_counter() - begin) * 1000)

    def never(self: Captures, *, pause: bool) -> None:
        pass

    def run(take: Callable[..., None]) -> Callable[[], None]:
        def act() -> None:
            with lo.serve(_answers(seconds)) as service, mock.patch.object(Captures, "take", take):
                os.environ |= {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
                in_store("m")

        return act

    measured = paired(run(timed), run(never), n)
    more = {
        "first_capture_median_ms": round(statistics.median(first), 1),
        "later_captures": round(len(later) / len(first), 1),
        "later_capture_median_ms": round(statistics.median(later), 1),
        "later_capture_p99_ms": round(percentile(later, 0.99), 1),
    }
    command = f"{TURNS} model calls of {seconds:g} s, a repository of {FILES} files"
    report(figure, COMMAND, "warm", session=command, **measured, **more, target=1.05)


def _answers(seconds: float) -> list[lo.Step]:
    def slow(step: lo.Step) -> lo.Step:
        def act(answer: lo.Answer) -> None:
            answer.stop.wait(seconds)
            step(answer)

        return act

    calls = [
        lo.message(lo.call("bash", command=f"date +%N > d{number}/f0"), reason="tool_use")
        for number in range(TURNS - 1)
    ]
    return [slow(step) for step in [*calls, lo.message(lo.text("Done."))]]


def _repository(source: Path) -> Path:
    source.mkdir()
    for number in range(FILES):
        folder = source / f"d{number % 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number // 50}").write_text(f"{number}\n" * 200)
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=source, check=True)
    return source


if __name__ == "__main__":
    main()
