"""A session in the store: what steps and turns cost in bytes and time, against a capsule and keeping nothing."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.bench.bench_run import MODEL_SECONDS, TURNS, slow_answers
from tests.bench.harness import paired, percentile, report
from tests.loopback import messages_api as lo

from hhd.app import driving
from hhd.node import capsules, workbench
from hhd.node.capsule_session import CapsuleKeeper
from hhd.node.face import Nobody
from hhd.node.keeper import Keeper
from hhd.node.standing import Step
from hhd.node.stored_session import StoreKeeper
from hhd.runtime.outcomes import StopFlag
from hhd_protocol.ids import SessionId

LONG_TURNS = 80
"""A turn is a call of the model, which says a sentence and asks for one tool, and that tool's call."""


def main() -> None:
    """Print all figures of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("CONFIG", "DATA", "CACHE"):
            os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
        (folder / "config").mkdir()
        (folder / "config" / "config.toml").write_text('[policy]\nallow = ["bash"]\n[model]\ncalls_max = 100000\n')
        (folder / "repo").mkdir()
        os.chdir(folder / "repo")
        (folder / "repo" / "notes.txt").write_text("A line of notes that is read again and again.\n" * 20)
        steps(folder)
        turns(folder)
        slowdown(folder)


@dataclass
class Timed:
    """Saves of one keeper, timed."""

    kept: type[StoreKeeper] | type[CapsuleKeeper]
    milliseconds: list[float] = field(default_factory=list)

    def patched(self) -> mock._patch[Any]:
        real = self.kept.save

        def save(keeper: Keeper, step: Step) -> None:
            begin = time.perf_counter()
            real(keeper, step)  # type: ignore[arg-type]
            self.milliseconds.append((time.perf_counter() - begin) * 1000)

        return mock.patch.object(self.kept, "save", save)


def script(folder: Path, count: int) -> str:
    """A model that reads a file again and again, with another sentence each time."""
    lines = [
        {
            "content": [
                {"type": "text", "text": f"Step {n}: I look at the notes once more, at line {n * 7 % 20}."},
                {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": "notes.txt"}},
            ],
            "stop_reason": "tool_use",
        }
        for n in range(count)
    ]
    done = {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}
    path = folder / f"script-{count}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, done]))
    return f"scripted:{path}"


def in_store(model: str) -> tuple[workbench.Workbench, SessionId]:
    """Run a session in the store to its end; the store stays open."""
    with driving.workbench() as bench:
        session = bench.create("go", folder=Path(), once=False)
        ended = bench.go_on(session, folder=None, model=model, face=Nobody(), stop=StopFlag())
        assert ended.status == 0, ended.sentence
        return bench, session


def in_file(folder: Path, model: str) -> None:
    """Run a session in a capsule to its end."""
    capsule = folder / "session.hhd"
    capsules.new("agent", capsule, args={"prompt": "go"}, embed=True, force=True)
    ended = driving.go_on_with_capsule(capsule, folder=Path(), model=model, face=Nobody(), stop=StopFlag())
    assert ended.status == 0, ended.sentence


def steps(folder: Path, n: int = 7, count: int = 20) -> None:
    """The saves of a session of 20 turns in the store, against those in a capsule file."""
    model = script(folder, count)
    ours, theirs = Timed(kept=StoreKeeper), Timed(kept=CapsuleKeeper)
    with ours.patched(), theirs.patched():
        measured = paired(lambda: in_store(model), lambda: in_file(folder, model), n)
    measured["ratio"] = round(statistics.median(ours.milliseconds) / statistics.median(theirs.milliseconds), 3)
    more = {
        "step_median_ms": round(statistics.median(ours.milliseconds), 3),
        "step_p99_ms": round(percentile(ours.milliseconds, 0.99), 3),
        "capsule_step_median_ms": round(statistics.median(theirs.milliseconds), 3),
        "capsule_step_p99_ms": round(percentile(theirs.milliseconds, 0.99), 3),
    }
    report("a step in the store, against one in a capsule", f"{count} turns", "warm", **measured, **more)


def turns(folder: Path) -> None:
    """What a long session leaves in the store for each turn, and what its last steps cost against its first."""
    ours = Timed(kept=StoreKeeper)
    with ours.patched():
        _, session = in_store(script(folder, LONG_TURNS))
    with driving.workbench() as bench:
        store = bench.store
        objects = [store.objects.size(n) for c in store.checkpoint_ids(session) for n in store.checkpoint(c).objects]
        rows = [len(store.rows.get("checkpoint", b"", c) or b"") for c in store.checkpoint_ids(session)]
        said = sum(map(len, workbench.Moment(store, store.heads(session)[0]).transcript()))
        begin = time.perf_counter()
        bench.fields(session)
        opened = (time.perf_counter() - begin) * 1000
    first, last = ours.milliseconds[:80], ours.milliseconds[-80:]
    report(
        "bytes of a turn in the store",
        f"{LONG_TURNS} turns of one tool call",
        "warm",
        n=len(ours.milliseconds),
        object_bytes_per_turn=round(sum(objects) / LONG_TURNS),
        row_bytes_per_turn=round(sum(rows) / LONG_TURNS),
        transcript_bytes_per_turn=round(said / LONG_TURNS),
        first_steps_median_ms=round(statistics.median(first), 3),
        last_steps_median_ms=round(statistics.median(last), 3),
        look_ms=round(opened, 1),
    )


def slowdown(folder: Path, n: int = 5) -> None:
    """A session with its steps in the store, against the same session that keeps nothing."""

    def kept_nowhere(keeper: StoreKeeper, step: Step) -> None:
        keeper._standing = step.standing

    def session(patch: Callable[[], mock._patch[Any]]) -> Callable[[], None]:
        def run() -> None:
            with lo.serve(slow_answers()) as service, patch():
                os.environ |= {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
                in_store("m")

        return run

    ours = Timed(kept=StoreKeeper)
    nowhere: Callable[[], mock._patch[Any]] = lambda: mock.patch.object(StoreKeeper, "save", kept_nowhere)  # noqa: E731
    measured = paired(session(ours.patched), session(nowhere), n)
    command = f"{TURNS} model calls of {MODEL_SECONDS:g} s, {TURNS - 1} commands of a few ms"
    more = {
        "step_median_ms": round(statistics.median(ours.milliseconds), 3),
        "steps": len(ours.milliseconds) // (n + 1),
    }
    report("session in the store with journal and checkpoints", command, "warm", **measured, **more, target=1.05)
