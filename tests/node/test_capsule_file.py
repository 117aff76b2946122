"""A capsule file on disk: locked while it is advanced, replaced whole, never lost."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from tests.protocol import forge

from hhd.base import files
from hhd.base.errors import RefusedError, RolledBackError, UncertainError
from hhd.node import capsule_file
from hhd.node.capsule_file import CapsuleFile
from hhd_protocol.capsule import Capsule


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "folder" / "spin.hhd"
    place.parent.mkdir()
    capsule_file.write_new(place, forge.fresh())
    return place


def later(value: Capsule, steps: int = 1) -> Capsule:
    return dataclasses.replace(value, steps=value.steps + steps)


def test_a_new_capsule_is_the_persons_alone_and_replaces_nothing(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(RefusedError, match="exists"):
        capsule_file.write_new(path, forge.finished())
    assert path.read_bytes() == before
    capsule_file.write_new(path, forge.finished(), force=True)
    assert path.read_bytes() == forge.whole(forge.finished())
    assert os.listdir(path.parent) == [path.name]


def test_a_second_process_is_refused_until_the_first_is_done(path: Path) -> None:
    first = CapsuleFile(path)
    for _ in range(3):  # Also after saves, which make the name stand for a new file.
        with pytest.raises(RefusedError, match="another process"):
            CapsuleFile(path)
        with pytest.raises(RefusedError, match="another process"):
            capsule_file.write_new(path, forge.fresh(), force=True)
        first.save(later(first.capsule))
    first.close()
    second = CapsuleFile(path)
    assert second.capsule.steps == 3
    second.close()


def test_reading_and_forking_go_on_beside_it(path: Path) -> None:
    held = CapsuleFile(path)
    assert capsule_file.read(path)[0].steps == 0
    held.close()


def test_who_opened_the_previous_file_begins_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process saves and ends between our opening the file and our locking it."""
    original = capsule_file._open
    opens = 0

    def slow(place: Path, *, follow: bool) -> int:
        nonlocal opens
        opens += 1
        fd = original(place, follow=follow)
        if opens == 1:
            files.replace(place, [forge.whole(later(forge.fresh(), 41))])
        return fd

    monkeypatch.setattr(capsule_file, "_open", slow)
    held = CapsuleFile(path)
    assert held.capsule.steps == 41 and opens == 2
    held.close()


def test_what_somebody_else_put_there_meanwhile_is_not_overwritten(path: Path) -> None:
    held = CapsuleFile(path)
    path.unlink()
    path.write_bytes(b"theirs")
    with pytest.raises(UncertainError, match="kept in") as error:
        held.save(later(held.capsule))
    assert path.read_bytes() == b"theirs"
    (kept,) = (each for each in path.parent.iterdir() if each != path)
    assert str(kept) in str(error.value)
    assert capsule_file.read(kept)[0].steps == 1
    held.close()


def test_a_file_that_was_only_touched_is_saved_and_one_that_was_written_into_is_not(path: Path) -> None:
    held = CapsuleFile(path)
    os.utime(path, (1, 1))
    held.save(later(held.capsule))
    assert capsule_file.read(path)[0].steps == 1
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"!")
    with pytest.raises(UncertainError, match="kept in"):
        held.save(later(held.capsule))
    held.close()


def test_a_full_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    held = CapsuleFile(path)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_file", full)
        with pytest.raises(RolledBackError, match="No space left"):
            held.save(later(held.capsule))
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    with pytest.raises(RefusedError, match="another process"):
        CapsuleFile(path)
    held.save(later(held.capsule))
    assert path.read_bytes() != before
    held.close()


def test_what_a_killed_save_left_is_removed_and_nothing_else(path: Path) -> None:
    stale = path.parent / f".{path.name}.0123456789ab.tmp"
    others = [path.parent / name for name in (f".{path.name}.short.tmp", ".other.0123456789ab.tmp", "0123456789ab.tmp")]
    for each in (stale, *others):
        each.write_bytes(b"half")
    CapsuleFile(path).close()
    assert not stale.exists()
    assert all(each.exists() for each in others)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "missing", "huge", "empty", "foreign"])
def test_what_is_no_capsule_is_refused_in_one_sentence(path: Path, kind: str) -> None:
    place = path.parent / kind
    if kind == "link":
        place.symlink_to(path)
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "huge":
        with open(place, "wb") as file:
            file.truncate(2**40)
    elif kind != "missing":
        place.write_bytes(b"" if kind == "empty" else b"hello, world" * 20)
    with pytest.raises(RefusedError) as error:
        CapsuleFile(place)
    sentence = str(error.value)
    assert sentence.count(". ") == 0 and sentence.endswith(".") and str(place) in sentence
    CapsuleFile(path).close()


def test_a_folder_that_cannot_be_written_to_is_noticed_before_anything_is_run(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(RefusedError, match="cannot be written to"):
        CapsuleFile(path)
