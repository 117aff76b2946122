"""SIGKILL at any point: no tool runs twice, nothing asked is forgotten, and a person can settle what is uncertain.

A child process drives a session of several effects, its journal in a real file, and kills itself at a chosen point:
before or after any write of the journal, and before, in the middle of or after any act. Each act leaves a line in a
file, so runs are counted in the world and not in the journal.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hhd.base.files import replace
from hhd.effects.approvals import Answer, Choice, Grants, Question
from hhd.effects.cancel import Cancel
from hhd.effects.confine import Workspace
from hhd.effects.executor import Answered, Executor, HowSettled, Ready, Refusal, Settlement, Waits, Why
from hhd.effects.policy import Policy
from hhd.effects.sandbox import Sandbox, detect
from hhd.effects.toolkind import ToolKind
from hhd_protocol.journal import Entry, Journal, State, decode, encode

EFFECTS = ["once a", "again b", "once c", "refused d", "once e"]
"""What the guest asks in order: acts that may run once, one that is repeatable, one that policy refuses."""


@dataclass
class Killer:
    """Kills this process at the step counted as `at`; None never does."""

    at: int | None
    steps: int = 0

    def step(self) -> None:
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


@dataclass
class FilePort:
    """A journal in a file, replaced durably as a capsule is."""

    file: Path
    killer: Killer

    def load(self) -> Journal:
        return decode(self.file.read_bytes()) if self.file.exists() else Journal()

    def save(self, journal: Journal) -> None:
        self.killer.step()
        replace(self.file, [encode(journal)])
        self.killer.step()


@dataclass
class World:
    """Runs acts that count themselves in a file. `careless`: everything is declared repeatable (the control)."""

    folder: Path
    killer: Killer
    careless: bool = False

    def prepare(self, entry: Entry) -> Ready | Refusal:
        if entry.request.startswith(b"refused"):
            return Refusal(reply=b"policy says no")
        return Ready(
            run=lambda cancel: self._run(entry.request),
            repeatable=self.repeatable(entry.request),
            question=Question(title="Run?", text=entry.request.decode()),
        )

    def repeatable(self, request: bytes) -> bool:
        return self.careless or request.startswith(b"again")

    def refused(self, entry: Entry, message: str) -> bytes:
        return b"no"

    def _run(self, request: bytes) -> bytes:
        self.killer.step()
        fd = os.open(self.folder / "runs", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, request + b"\n")
        os.fsync(fd)
        os.close(fd)
        self.killer.step()
        return b"did " + request


class Yes:
    def ask(self, question: Question) -> Answer:
        return Answer(choice=Choice.YES, seen=question.shown)


def drive(
    folder: Path, at: int | None, *, careless: bool = False, settle: Callable[[Entry], Settlement] | None = None
) -> int:
    """Go on with the session until it is over or waits; return how many points a kill could have hit."""
    killer = Killer(at)
    port = FilePort(folder / "journal", killer)
    host = Executor(
        kinds={"tool": World(folder, killer, careless)}, approver=Yes(), grants=Grants(), cancel=Cancel()
    )  # fmt: skip
    while True:
        journal = port.load()
        if journal.pending is None:
            asked = journal.settled + (journal.live is not None)
            if asked == len(EFFECTS):
                return killer.steps
            port.save(journal.ask("tool", EFFECTS[asked].encode())[0])
            continue
        outcome = host.advance(port)
        if isinstance(outcome, Waits):
            assert outcome.why is Why.UNCERTAIN, outcome
            if settle is None:
                return killer.steps
            outcome = host.advance(port, settle(journal.pending))
        assert isinstance(outcome, Answered)


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child; return its wait status (0: ended well)."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(99)
    return os.waitpid(child, 0)[1]


def runs(folder: Path) -> list[str]:
    return (folder / "runs").read_text().split("\n")[:-1] if (folder / "runs").exists() else []


def truth(folder: Path) -> Callable[[Entry], Settlement]:
    """What an honest person says of an uncertain effect, having looked."""

    def settle(entry: Entry) -> Settlement:
        if entry.request.decode() in runs(folder):
            return Settlement(how=HowSettled.RAN, reply=b"did " + entry.request)
        return Settlement(how=HowSettled.DID_NOT_RUN)

    return settle


def points(tmp_path: Path) -> int:
    whole = tmp_path / "whole"
    whole.mkdir()
    assert runs(whole) == []
    steps = drive(whole, None)
    assert runs(whole) == ["once a", "again b", "once c", "once e"]
    return steps


def test_killed_at_every_point_no_act_runs_twice_and_none_is_forgotten(tmp_path: Path) -> None:
    uncertain = 0
    for at in range(points(tmp_path)):
        folder = tmp_path / f"kill-{at}"
        folder.mkdir()
        assert in_child(lambda: drive(folder, at)) == signal.SIGKILL  # noqa: B023
        drive(folder, None)
        once = [run for run in runs(folder) if run.startswith("once")]
        assert len(once) == len(set(once)), f"killed at {at}: {once}"
        journal = decode((folder / "journal").read_bytes())
        if journal.pending is not None:
            uncertain += 1
            assert journal.pending.state is State.UNCERTAIN
            drive(folder, None)  # Asked again it still waits.
            assert once == [run for run in runs(folder) if run.startswith("once")]
        drive(folder, None, settle=truth(folder))
        assert [run for run in runs(folder) if run.startswith("once")] == ["once a", "once c", "once e"]
        assert "again b" in runs(folder)
        journal = decode((folder / "journal").read_bytes())
        assert journal.settled == len(EFFECTS) - 1 and journal.pending is None
    assert uncertain == 12, "three acts, killed after `started`, around the act, and before `answered`"


def test_a_careless_executor_is_caught_by_the_same_kills(tmp_path: Path) -> None:
    """Control: with everything declared repeatable, some kill makes an act run twice."""
    twice = 0
    for at in range(points(tmp_path)):
        folder = tmp_path / f"kill-{at}"
        folder.mkdir()
        in_child(lambda: drive(folder, at, careless=True))  # noqa: B023
        drive(folder, None, careless=True)
        once = [run for run in runs(folder) if run.startswith("once")]
        twice += len(once) != len(set(once))
    assert twice == 6, "three acts, killed between the act and `answered` on disk"


def _many_kills(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    folder.mkdir()
    for _ in range(40):
        at = dice.choice([None, *range(14)])
        status = in_child(lambda: drive(folder, at, settle=truth(folder)))  # noqa: B023
        assert status in (0, signal.SIGKILL)
        if status == 0:
            break
    drive(folder, None, settle=truth(folder))
    assert [run for run in runs(folder) if run.startswith("once")] == ["once a", "once c", "once e"], seed


def test_killed_again_and_again_with_an_honest_person_each_act_runs_exactly_once(tmp_path: Path) -> None:
    for seed in range(6):
        _many_kills(tmp_path / str(seed), seed)


@pytest.mark.parametrize("walled", [True, False])
def test_killed_while_a_command_runs_the_command_ends_and_is_not_run_again(tmp_path: Path, walled: bool) -> None:
    sandbox = detect() if walled else Sandbox(program=None, reason="test", network=True, hidden=())
    if walled and sandbox.program is None:
        pytest.skip(f"there is no sandbox here: {sandbox.reason}")
    folder = tmp_path / "work"
    folder.mkdir()
    port = FilePort(tmp_path / "journal", Killer(None))
    command = "echo run >> runs; mkfifo hold; echo > hold; echo again >> runs"
    request = json.dumps({"id": "call_1", "name": "bash", "input": {"command": command}}).encode()
    port.save(Journal().ask("tool", request)[0])

    def host() -> Executor:
        tools = ToolKind(
            session=b"s", workspace=Workspace(folder), sandbox=sandbox, environment={"PATH": os.environ["PATH"]},
            policy=Policy.from_table({"allow": ["bash"]}), grants=Grants(),
        )  # fmt: skip
        return Executor(kinds={"tool": tools}, approver=Yes(), grants=Grants(), cancel=Cancel())

    child = os.fork()
    if child == 0:
        host().advance(port)
        os._exit(99)
    while not (folder / "hold").exists():
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(2):
        assert isinstance(waits := host().advance(port), Waits) and waits.why is Why.UNCERTAIN
    assert (folder / "runs").read_text() == "run\n"


@pytest.mark.long
def test_killed_again_and_again_at_many_seeds(tmp_path: Path) -> None:
    for seed in range(1000, 1100):
        _many_kills(tmp_path / str(seed), seed)
