"""The archive of originals: exact bytes, side folders included, growth costs little, damage is noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from tests.native.native import FIXTURES, claude_record, indexed, lines

from hhd.base.errors import RefusedError
from hhd.native.archive import Archive, ArchiveError
from hhd.native.opening import open_session
from hhd_protocol.limits import ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness


class Plank:
    """A shelf in memory that counts as the real one does; `room`: writes until the disk is full, None: any number."""

    def __init__(self) -> None:
        self.pieces: dict[bytes, bytes] = {}
        self.lists: dict[str, list[bytes]] = {}
        self.needs: dict[bytes, set[bytes]] = {}
        self.room: int | None = None

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _write(self) -> None:
        if self.room is not None:
            if not self.room:
                raise OSError(28, "No space left on device")
            self.room -= 1

    def put(self, digest: bytes, raw: bytes) -> int:
        assert hashlib.sha256(raw).digest() == digest
        if digest in self.pieces:
            return 0
        self._write()
        self.pieces[digest] = raw
        return len(raw)

    def get(self, digest: bytes) -> bytes:
        raw = self.pieces.get(digest)
        if raw is None or hashlib.sha256(raw).digest() != digest:
            raise ArchiveError("missing or damaged")
        return raw

    def enter(self, label: str, digest: bytes, needs: Iterable[bytes]) -> None:
        self._write()
        self.needs[digest] = set(needs)
        assert self.needs[digest] <= self.pieces.keys() and digest in self.pieces
        known = self.lists.setdefault(label, [])
        known += [] if digest in known else [digest]

    def labelled(self, label: str) -> list[bytes]:
        return self.lists.get(label, [])

    def labels(self) -> list[str]:
        return list(self.lists)


SESSION = "aaaaaaaa-0000-4000-8000-000000000001"


def keep(archive: Archive, path: Path):  # type: ignore[no-untyped-def]
    with open_session(path) as reading:
        header = reading.header
    bases = [Path(file.path) for file in header.files if file.role == "base"]
    return archive.keep(header.harness, header.id or path.stem, path, header.side_files, bases)


def test_every_captured_session_comes_back_byte_for_byte_with_its_side_folder(tmp_path: Path) -> None:
    archive = Archive(Plank())
    for number, row in enumerate(row for row in indexed() if "captured" in row.path.parts):
        original = keep(archive, row.path).original
        target = tmp_path / str(number)
        archive.restore(original, target)
        assert (target / row.path.name).read_bytes() == row.path.read_bytes()
        for beside in row.path.parent.glob(f"{row.path.stem}/**/*"):
            if beside.is_file():
                assert (target / beside.relative_to(row.path.parent)).read_bytes() == beside.read_bytes()
    assert not list(archive.check())


def test_a_fork_brings_its_base_along(tmp_path: Path) -> None:
    (child,) = (FIXTURES / "captured" / "codex" / "fork").rglob("*41-51*.jsonl")
    original = keep(Archive(Plank()), child).original
    assert [file.path.split("/")[0] for file in original.files] == [child.name, "bases"]


def test_keeping_again_changes_nothing_and_growth_costs_one_piece(tmp_path: Path) -> None:
    archive = Archive(Plank())
    path = tmp_path / f"{SESSION}.jsonl"
    noise = os.urandom(3 * ARCHIVE_PIECE_BYTES).hex()
    path.write_bytes(lines(claude_record(1, None, "user", noise)))
    first = keep(archive, path)
    assert first.new
    again = keep(archive, path)
    assert not again.new and again.written == 0 and again.original == first.original
    before = path.read_bytes()
    with open(path, "ab") as file:
        file.write(lines(claude_record(2, 1, "assistant", "more")))
    grown = keep(archive, path)
    assert grown.new and grown.written < ARCHIVE_PIECE_BYTES + 10_000 < first.written
    old, new = archive.originals(Harness.CLAUDE, SESSION)
    assert b"".join(archive.read(old.files[0])) == before
    assert b"".join(archive.read(new.files[0])) == path.read_bytes()


@pytest.mark.parametrize("damage", ["flip", "gone", "other"])
def test_a_damaged_piece_is_noticed_and_nothing_is_given_out(tmp_path: Path, damage: str) -> None:
    shelf = Plank()
    archive = Archive(shelf)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    original = keep(archive, path).original
    assert not list(archive.check())
    piece = original.files[0].pieces[0]
    if damage == "gone":
        del shelf.pieces[piece]
    else:
        raw = shelf.pieces[piece]
        shelf.pieces[piece] = raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:] if damage == "flip" else b"other"
    assert len(list(archive.check())) == 1
    with pytest.raises(ArchiveError):
        archive.restore(original, tmp_path / "out")
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    shelf.pieces.pop(piece, None)
    assert not keep(archive, path).new and not list(archive.check()), "kept again it is whole"


def test_pieces_that_are_right_in_another_order_are_noticed(tmp_path: Path) -> None:
    shelf = Plank()
    archive = Archive(shelf)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", os.urandom(ARCHIVE_PIECE_BYTES).hex())))
    (file,) = keep(archive, path).original.files
    assert len(file.pieces) > 2
    with pytest.raises(ArchiveError):
        list(archive.read(replace(file, pieces=file.pieces[::-1])))


def test_restoring_over_an_existing_file_is_refused_with_nothing_written(tmp_path: Path) -> None:
    archive = Archive(Plank())
    path = next((FIXTURES / "captured" / "claude" / "long").rglob("*.jsonl"))
    original = keep(archive, path).original
    (tmp_path / "out" / path.stem / "tool-results").mkdir(parents=True)
    (tmp_path / "out" / original.files[-1].path).write_bytes(b"mine")
    with pytest.raises(RefusedError):
        archive.restore(original, tmp_path / "out")
    assert [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()] == [b"mine"]


def test_a_crash_at_any_write_leaves_what_was_kept_readable(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    shelf = Plank()
    archive = Archive(shelf)
    keep(archive, path)
    path.write_bytes(lines(claude_record(1, None, "user", "hello"), claude_record(2, 1, "assistant", "more")))
    for room in (0, 1, 1):  # The piece, the list of files, the place of the list: what was written stays.
        shelf.room = room
        with pytest.raises(OSError):
            keep(archive, path)
        assert len(archive.originals(Harness.CLAUDE, SESSION)) == 1 and not list(archive.check())
    shelf.room = 1
    assert keep(archive, path).new


def test_names_that_leave_the_folder_are_not_kept_and_ids_that_are_none_refused(tmp_path: Path) -> None:
    archive = Archive(Plank())
    path = tmp_path / "s" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    (tmp_path / "secret").write_text("secret")
    kept = archive.keep(Harness.CLAUDE, SESSION, path, ["../secret", "/etc/passwd", ""], [])
    assert [file.path for file in kept.original.files] == [path.name]
    with pytest.raises(RefusedError):
        archive.keep(Harness.CLAUDE, "../../x", path, [], [])
