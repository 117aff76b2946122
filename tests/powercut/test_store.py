"""After a power cut at any moment the store opens clean, with every promise kept."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.powercut import images, recorder
from tests.powercut.recorder import Record
from tests.store.conftest import ALICE

from hhd.base.errors import UserError
from hhd.identity.key import open_identity
from hhd.store.check import Check
from hhd.store.note import noted_device
from hhd.store.store import Limits, Store

ROOT = Path(__file__).parents[2]
STEPS = 5
NEAR = 16
"""Records after a dropped sync within which somebody must notice: later syncs hide it."""

WORK = """
import sys
from pathlib import Path
from hhd.identity.key import open_identity
from hhd.store import layout
from hhd.store.line import Line
from hhd.store.store import Store
from tests.powercut.recorder import mark
from tests.store.conftest import ALICE, Memory
from hhd.store.captures import workspace_of
from tests.store.small import LIMITS, captured, dice

root, steps = Path(sys.argv[1]), int(sys.argv[2])
layout.SYNCHRONOUS = sys.argv[3] if len(sys.argv) > 3 else layout.SYNCHRONOUS
me = open_identity(root / "identity", random=dice(1))
mark("identity " + me.text)
store = Store.open(root / "store", seed=me.seed, limits=LIMITS, random=dice(2))
mark("store " + me.text)
store.create_session(ALICE)
memory, line, last = Memory(6), Line(store, ALICE), None
for step in range(steps):
    last = captured(store, ALICE, {b"same": bytes(300), b"other": b"%d" % step}, last)
    head = line.checkpoint(changed=memory.edit(2), snapshot=memory.snapshot(), logs={"log": b"%d" % step},
                           workspace=workspace_of(last))
    mark("checkpoint " + head.hex())
    if step % 2:
        store.rows.append("journal", ALICE, b"%d" % step)
        mark("journal %d" % (step // 2 + 1))
    if step == 2:
        store.database.fold()
store.close()
mark("closed")
"""
"""What is promised: an identity, a store that belongs to it, each checkpoint, each entry of a journal."""


def recorded(tmp_path: Path, *synchronous: str) -> list[Record]:
    """What a process does that works in a store; as the store is set up, or with another `synchronous`."""
    root = tmp_path / "root"
    root.mkdir()
    command = [sys.executable, "-c", WORK, str(root), str(STEPS), *synchronous]
    records = recorder.record(command, root, tmp_path / "log", PYTHONPATH=str(ROOT))
    assert sum(one.op == "m" for one in records) == STEPS + STEPS // 2 + 3, "nothing was recorded"
    assert any(one.op == "w" and one.path.endswith("-wal") for one in records), "SQLite's writes were not recorded"
    return records


def broken(
    records: Sequence[Record],
    folder: Path,
    root: Path,
    *,
    per_moment: int = 4,
    posix: bool = True,
    since: int = 0,
    enough: str | None = None,
) -> tuple[list[str], int]:
    """Return how the possible disks break promises, and how many disks there are, from record `since` on.

    `enough`: one that is broken with this word, where it is only asked whether there is one.
    """
    found, count = [], 0
    for image in images.images(records, random.Random(3), per_moment=per_moment, posix=posix):
        if image.moment < since:
            continue
        count += 1
        if problem := _problem(image, folder / str(count), root):
            found.append(problem)
            if enough is not None and enough in problem:
                break
    return found, count


def _problem(image: images.Image, at: Path, root: Path) -> str | None:
    promised = dict.fromkeys(("identity", "store", "journal"), "")
    checkpoints = []
    for mark in image.marks:
        kind, _, value = mark.partition(" ")
        if kind == "checkpoint":
            checkpoints.append(value)
        promised[kind] = value
    for path, raw in image.files.items():
        if path.startswith(str(root)) and not path.endswith("-shm"):
            target = at / Path(path).relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_bytes(raw)
            target.chmod(0o600)
    try:
        noted = noted_device(at / "store")
        if promised["store"] and noted != promised["store"]:
            return "the store forgot whose it is"
        if promised["identity"] and not (at / "identity" / "device").exists():
            return "the note of the key was lost"
        me = open_identity(at / "identity", store_device=noted)
        if promised["identity"] and me.text != promised["identity"]:
            return "another identity"
        with Store.open(at / "store", seed=me.seed, limits=Limits(free_bytes_min=0)) as store:
            if findings := Check(store).run().findings:
                return f"not clean: {findings[0]}"
            held = [one.hex() for one in store.checkpoint_ids(ALICE)]
            if held[: len(checkpoints)] != checkpoints:
                return "a checkpoint was lost"
            if store.rows.length("journal", ALICE) < int(promised["journal"] or 0):
                return "an entry of the journal was lost"
    except UserError as error:
        return str(error)
    return None


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    # Not a name out of `random`: hypothesis seeds it alike in every process.
    folder = Path(tempfile.mkdtemp(prefix="hhd-powercut-", dir=shared if shared.is_dir() else tmp_path))
    yield folder
    shutil.rmtree(folder)


def test_every_promise_survives_every_cut(tmp_path: Path, disks: Path) -> None:
    found, count = broken(recorded(tmp_path), disks, tmp_path / "root", per_moment=1)
    assert count > 150 and not found, found[:3]


@pytest.mark.long
def test_every_promise_survives_every_cut_at_length(tmp_path: Path, disks: Path) -> None:
    records = recorded(tmp_path)
    for posix in (True, False):
        found, count = broken(records, disks / str(posix), tmp_path / "root", per_moment=5, posix=posix)
        print(f"{count} disks, posix={posix}")
        assert not found, found[:3]


def test_synchronous_below_full_loses_promises(tmp_path: Path, disks: Path) -> None:
    found, _ = broken(recorded(tmp_path, "NORMAL"), disks, tmp_path / "root", per_moment=0, enough="lost")
    assert any("lost" in problem for problem in found)


@pytest.mark.long
def test_each_sync_of_our_own_code_is_needed(tmp_path: Path, disks: Path) -> None:
    records = recorded(tmp_path)
    own = [i for i, one in enumerate(records) if one.op == "s" and not _of_sqlite(records, i)]
    assert len(own) == 6, "three files: key, note, format; each has its bytes and its name synced"
    idle = []
    for number in own:
        near = images.without(records[: number + NEAR], number)
        found, _ = broken(near, disks / str(number), tmp_path / "root", per_moment=12, since=number, enough="")
        if not found:
            idle.append((number, records[number].path))
    assert not idle, "a sync was dropped and nobody noticed"


def test_a_dropped_sync_of_the_key_is_noticed(tmp_path: Path, disks: Path) -> None:
    records = recorded(tmp_path)
    first = next(i for i, one in enumerate(records) if one.op == "s" and "identity" in one.path)
    end = next(i for i, one in enumerate(records) if one.op == "m" and one.path.startswith("store"))
    assert broken(images.without(records[:end], first), disks, tmp_path / "root", per_moment=2, enough="")[0]


def _of_sqlite(records: Sequence[Record], number: int) -> bool:
    """Say whether a sync is SQLite's: of its files, or of the folder right after a journal's first sync."""
    path, before = records[number].path, records[number - 1]
    folder = before.op == "s" and before.path.endswith(("-journal", "-wal")) and not path.endswith("identity")
    return folder or path.endswith(("store.db", "-wal", "-shm", "-journal"))
