"""The agent carried from process to process, also of another architecture: the command line does each step."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.arm64 import root
from tests.guest.agent_host import agent_module
from tests.guest.test_agent import SESSION_ARGS, working_session
from tests.runtime.runs import whole

from hhd_protocol.abi import EffectRequest

Command = tuple[Sequence[str], dict[str, str]]


def here() -> Command:
    return [sys.executable], dict(os.environ)


def emulated() -> Command:
    root.need()
    return root.python(), root.environment()


def carried(folder: Path, commands: Sequence[Command], dice: random.Random, checks_most: int) -> tuple[bytes, int]:
    """The transcript of the working session, each step of it in a new process, and how many there were."""
    file, reply_file = folder / "session.hhd", folder / "reply.json"
    replies, steps = working_session(), 0

    def hhd(*words: str) -> bytes:
        program, environment = commands[steps % len(commands)]
        done = subprocess.run([*program, "-m", "hhd", "capsule", *words], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    words = [f"--arg={key}={value}" for key, value in json.loads(SESSION_ARGS).items()]
    hhd("new", "agent", "--out", str(file), *words)
    extra: list[str] = []
    while True:
        steps += 1
        said = json.loads(hhd("step", str(file), "--json", f"--slice-checks={dice.randint(1, checks_most)}", *extra))
        extra = []
        if said["status"] == "finished":
            return hhd("transcript", str(file)), steps
        if said["status"] == "waiting":
            asked = EffectRequest(op=said["effect"]["op"], request=said["effect"]["request"].encode())
            reply_file.write_bytes(replies(asked))
            extra = [f"--reply-file={reply_file}"]


@pytest.mark.long
def test_processes_leave_no_trace(tmp_path: Path) -> None:
    uncut = whole(agent_module(), SESSION_ARGS, working_session())
    transcript, steps = carried(tmp_path, [here()], random.Random(1), uncut.checks // 10)
    assert steps > 30
    assert transcript == uncut.transcript


@pytest.mark.long
@pytest.mark.arm64
def test_architectures_leave_no_trace(tmp_path: Path) -> None:
    uncut = whole(agent_module(), SESSION_ARGS, working_session())
    transcript, steps = carried(tmp_path, [here(), here(), here(), emulated()], random.Random(2), uncut.checks // 5)
    assert steps > 25
    assert transcript == uncut.transcript
