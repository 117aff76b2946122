"""What was begun in a folder is readable for its device alone; what an earlier hhd left in plain is ended once."""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path

import pytest
from tests.store.phrase import leaks
from tests.workspace import faults
from tests.workspace.by_hand import BOX

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.node.unfinished import ended
from hhd.workspace.materialise import finish, held, recover
from hhd.workspace.pending import Pending, pending_folder
from hhd.workspace.pending_plain import forget_locks
from hhd.workspace.switch import PUT, Change, Switch, seen
from hhd_protocol.codec import encode

PHRASE = "zebrafishquorum7741"


def begun(tmp_path: Path) -> Pending:
    """A change whose every step is still to be taken: a file of that name comes."""
    folder = tmp_path / PHRASE
    stage = tmp_path / ".hhd-1"
    folder.mkdir(exist_ok=True)
    (folder / PHRASE).unlink(missing_ok=True)
    for name in ("new", "old"):
        (stage / name).mkdir(parents=True, exist_ok=True)
    (stage / "new" / "0").write_text("new\n")
    put = Change(kind=PUT, path=PHRASE.encode(), staged=seen((stage / "new" / "0").stat()))
    return Pending(folder=folder, stage=stage, switch=Switch(folder=folder, git_dir=None, stage=stage, changes=(put,)))


def left_plain(one: Pending) -> Path:
    """Leave `one` as an earlier hhd did when it was killed, a half-written record beside it."""
    assert one.switch is not None
    name = hashlib.sha256(os.fsencode(one.folder)).hexdigest()[:32]
    (pending_folder() / f"{name}.lock").touch()
    (pending_folder() / f".{name}.cbor.0123.tmp").write_bytes(os.fsencode(one.folder))
    file = pending_folder() / f"{name}.cbor"
    paths = [os.fsencode(one.folder), os.fsencode(one.stage)]
    file.write_bytes(encode([1, *paths, None, b"", one.switch.value()]))
    return file


def left_sealed(one: Pending) -> Path:
    """Leave `one` as it is left now."""
    with held(one.folder, BOX) as place:
        place.save(one)
    return place.file


def is_ended(one: Pending) -> bool:
    """Whether the change was made and nothing is left of it, not even a name that says which folder it was."""
    assert {path.suffix for path in pending_folder().iterdir()} <= {".held", ".tmp"}
    assert not one.stage.exists() and not leaks(pending_folder(), PHRASE)
    return (one.folder / PHRASE).read_text() == "new\n"


def test_a_record_is_ended_and_neither_it_nor_its_name_says_of_which_folder(tmp_path: Path) -> None:
    one = begun(tmp_path)
    file = left_sealed(one)
    assert not leaks(pending_folder(), PHRASE)
    guess = hashlib.sha256(os.fsencode(one.folder)).hexdigest()[:32]
    assert not list(pending_folder().glob(f"*{guess}*")), "a folder that was guessed cannot be seen to be right"
    with held(one.folder, Box(bytes(31) + b"1")) as other:
        assert other.file != file, "the name depends on the key"
    (found,) = recover(BOX)
    assert found.done and is_ended(one)


def test_a_plain_record_is_ended_once_and_is_gone_with_its_lock(tmp_path: Path) -> None:
    one = begun(tmp_path)
    left_plain(one)
    assert leaks(pending_folder(), PHRASE)
    (found,) = recover(BOX)
    assert found.done and found.folder == one.folder and is_ended(one)
    assert recover(BOX) == []


def test_a_plain_record_is_ended_wherever_a_start_is_killed(tmp_path: Path) -> None:
    left_plain(begun(tmp_path))
    total = faults.count(lambda: recover(BOX))
    for number in range(total):
        one = begun(tmp_path)
        left_plain(one)
        assert faults.killed(lambda: recover(BOX), number)
        recover(BOX)
        assert is_ended(one)
    assert total > 10


def test_a_plain_record_of_a_disk_that_is_away_is_sealed_and_waits(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    one = begun(disk)
    left_plain(one)
    disk.rename(tmp_path / "away")
    assert recover(BOX) == [] and not leaks(pending_folder(), PHRASE)
    (tmp_path / "away").rename(disk)
    assert len(recover(BOX)) == 1 and is_ended(one)


def test_while_an_earlier_hhd_is_at_work_in_a_folder_its_record_is_left_and_nobody_else_writes_there(
    tmp_path: Path,
) -> None:
    one = begun(tmp_path)
    file = left_plain(one)
    with open(file.with_suffix(".lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert recover(BOX) == [] and file.exists()
        with pytest.raises(RefusedError, match="An earlier hhd"), held(one.folder, BOX):
            pass
    assert len(recover(BOX)) == 1 and is_ended(one)


@pytest.mark.parametrize("how", ["another key", "a bit", "cut", "empty", "another's name"])
def test_a_record_that_does_not_open_is_named_and_left_alone(tmp_path: Path, how: str) -> None:
    one = begun(tmp_path)
    file = left_sealed(one)
    box, raw = BOX, bytearray(file.read_bytes())
    if how == "another key":
        box = Box(b"\1" * 32)
    elif how == "a bit":
        raw[len(raw) // 2] ^= 1
    elif how == "another's name":
        file = file.rename(file.with_name("0" * 32 + file.suffix))
    else:
        del raw[0 if how == "empty" else len(raw) - 1 :]
    file.write_bytes(raw)
    (found,) = recover(box)
    assert str(file) in found.problem and "move the file away" in found.problem and found.problem.endswith(".")
    assert found.folder is None and not found.done
    assert file.read_bytes() == raw and one.stage.exists() and not (one.folder / PHRASE).exists()
    if how in ("a bit", "cut", "empty"):
        with held(one.folder, box) as place, pytest.raises(RefusedError, match="move the file away"):
            finish(place)


@pytest.mark.parametrize("raw", [b"", b"\xff", encode([1]), encode([2, b"", b"", None, b"", None])])
def test_a_plain_record_that_cannot_be_read_is_named_and_left_alone(tmp_path: Path, raw: bytes) -> None:
    one = begun(tmp_path)
    file = left_plain(one)
    file.write_bytes(raw)
    (found,) = recover(BOX)
    assert str(file) in found.problem and "move the file away" in found.problem
    assert file.read_bytes() == raw and one.stage.exists()
    with pytest.raises(RefusedError, match="An earlier hhd"), held(one.folder, BOX):
        pass
    file.unlink()
    assert recover(BOX) == []
    with held(one.folder, BOX):
        pass


def test_locks_that_an_earlier_hhd_left_go_without_a_key(tmp_path: Path) -> None:
    one = begun(tmp_path)
    file = left_plain(one)
    before = {path.name for path in pending_folder().iterdir()}
    forget_locks()
    assert {path.name for path in pending_folder().iterdir()} == before, "not one beside a record"
    file.unlink()
    assert ended() == () and not list(pending_folder().iterdir())


def test_a_plain_record_beside_a_sealed_one_of_another_change_waits_until_that_is_ended(tmp_path: Path) -> None:
    first = begun(tmp_path)
    left_sealed(Pending(folder=first.folder, stage=tmp_path / ".hhd-2"))
    file = left_plain(first)
    assert len(recover(BOX)) == 1 and file.exists()
    assert len(recover(BOX)) == 1 and is_ended(first)
