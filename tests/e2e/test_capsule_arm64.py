"""A capsule that alternates between x86-64 and emulated ARM64 has the same content after the same steps."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.arm64 import root
from tests.node import guests

from hhd.node import capsule_file, capsules

pytestmark = pytest.mark.arm64


def step(path: Path, *words: object, arm: bool) -> dict[str, Any]:
    """One step in a fresh process, here or on the other processor."""
    python = root.python if arm else lambda *rest: [sys.executable, *rest]
    command = python("-m", "hhd", "capsule", "step", str(path), "--json", *map(str, words))
    done = subprocess.run(command, env=root.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("program", "largest", "args"),
    [
        ("asks", 6000, {}),
        pytest.param("mixed", 500, {}, marks=pytest.mark.long),
        pytest.param("spin", 6000, {"iterations": "20000"}, marks=pytest.mark.long),
    ],
)
def test_the_content_is_equal_after_every_step_and_the_transcript_at_the_end(
    tmp_path: Path, program: str, largest: int, args: dict[str, str]
) -> None:
    root.need()
    module, here, both = tmp_path / "program.wasm", tmp_path / "here.hhd", tmp_path / "both.hhd"
    module.write_bytes(guests.wasm(program))
    capsules.new(str(module), here, args=args, embed=True, force=False)
    capsules.fork(here, both)
    reply = tmp_path / "reply"
    reply.write_bytes(b"what the tool said\n")
    dice, arm, steps, more = random.Random(5), True, 0, list[object]()
    while True:
        checks = dice.randint(largest // 2, largest)
        one = step(here, "--slice-checks", checks, *more, arm=False)
        other = step(both, "--slice-checks", checks, *more, arm=arm)
        assert one["content"] == other["content"]
        assert (one["status"], one["effect"]) == (other["status"], other["effect"])
        if one["status"] == "finished":
            break
        more = ["--reply-file", reply] if one["status"] == "waiting" else []
        arm, steps = not arm, steps + 1
    assert steps >= 2
    assert b"".join(capsules.transcript(here)) == b"".join(capsules.transcript(both)) != b""
    one_file, other_file = (capsule_file.read(path)[0] for path in (here, both))
    assert one_file.line != other_file.line
