"""After a power cut at any moment a capsule is the one before or the one after a step, whole; promises are kept."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from tests.node import guests
from tests.powercut import images, recorder
from tests.powercut.recorder import Record

from hhd_protocol import capsule
from hhd_protocol.errors import FormatError

STEPS = 6

WORK = """
import sys
from pathlib import Path
from hhd.node import capsules
from hhd.runtime.outcomes import StopFlag
from tests.powercut.recorder import mark

module, path = sys.argv[1], Path(sys.argv[2])
capsules.new(module, path, args={}, embed=True, force=False)
mark("0")
for number in range(1, 1 + int(sys.argv[3])):
    capsules.step(path, checks=40, stop=StopFlag())
    mark(str(number))
capsules.fork(path, path.with_name("fork.hhd"))
mark("forked")
"""


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    root, module = tmp_path / "root", tmp_path / "mixed.wasm"
    root.mkdir()
    module.write_bytes(guests.wasm("mixed"))
    command = [sys.executable, "-c", WORK, str(module), str(root / "work.hhd"), str(STEPS)]
    found = recorder.record(command, root, tmp_path / "log", PYTHONPATH=str(guests.ROOT))
    assert sum(one.op == "w" for one in found) >= STEPS, "nothing was recorded"
    assert sum(one.op == "m" for one in found) == STEPS + 2
    return found


def broken_promises(records: list[Record], *, posix: bool = True) -> tuple[int, int]:
    """How many of the possible disks break a promise, and how many there are."""
    bad = count = 0
    for image in images.images(records, random.Random(1), posix=posix):
        count += 1
        bad += not _kept(image)
    return bad, count


def _kept(image: images.Image) -> bool:
    steps = {}
    for path, raw in image.files.items():
        if not path.endswith(".hhd"):
            continue  # A temporary file, which nobody reads.
        try:
            steps[Path(path).name] = capsule.decode(raw).steps
        except FormatError:
            return False
    promised = [int(mark) for mark in image.marks if mark != "forked"]
    if promised and not promised[-1] <= steps.get("work.hhd", -1) <= promised[-1] + 1:
        return False
    return "forked" not in image.marks or steps.get("fork.hhd") == STEPS


def test_whatever_a_cut_leaves_is_a_whole_capsule_with_all_that_was_promised(records: list[Record]) -> None:
    for posix in (True, False):
        bad, count = broken_promises(records, posix=posix)
        assert count > 200
        assert bad == 0


def test_every_single_sync_is_needed(records: list[Record]) -> None:
    syncs = [place for place, one in enumerate(records) if one.op == "s"]
    assert len(syncs) == 2 * (STEPS + 2), "one of the file and one of the folder, for each file that is written"
    for place in syncs:
        bad, _ = broken_promises(images.without(records, place))
        assert bad > 0, f"nobody would miss sync {place} of {Path(records[place].path).name}"
