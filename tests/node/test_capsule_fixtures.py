"""Capsules of every released format version are read and go on to the end they had."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hhd.node import capsules
from hhd.runtime.outcomes import StopFlag
from hhd_protocol.capsule import VERSION

FOLDER = Path(__file__).parents[1] / "fixtures/capsules"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_it_goes_on_to_the_end_it_had(tmp_path: Path, name: str) -> None:
    expected, path = EXPECTED[name], tmp_path / name
    shutil.copy(FOLDER / name, path)
    assert capsules.info(path).capsule.content_digest().hex() == expected["content"]
    replies = [reply.encode() for reply in expected["replies"]]
    for _ in range(9):
        waits = capsules.info(path).status == "waiting"
        report = capsules.step(path, checks=10**9, reply=replies.pop(0) if waits else None, stop=StopFlag())
        if report.status == "finished":
            break
    assert not replies
    assert b"".join(capsules.transcript(path)).hex() == expected["ends_with"]


def test_there_is_one_of_every_version_and_none_is_forgotten() -> None:
    assert {path.name for path in FOLDER.glob("*.hhd")} == set(EXPECTED)
    assert {int(name[1 : name.index("-")]) for name in EXPECTED} == set(range(1, VERSION + 1))
