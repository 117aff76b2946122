"""The archive of originals: exact bytes, side folders included, growth costs little, damage is noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.native.native import FIXTURES, claude_record, indexed, lines

from hhd.base import files
from hhd.base.errors import RefusedError
from hhd.native.archive import Archive, ArchiveError
from hhd.native.opening import open_session
from hhd_protocol.limits import ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness

SESSION = "aaaaaaaa-0000-4000-8000-000000000001"


def keep(archive: Archive, path: Path):  # type: ignore[no-untyped-def]
    with open_session(path) as reading:
        header = reading.header
    bases = [Path(file.path) for file in header.files if file.role == "base"]
    return archive.keep(header.harness, header.id or path.stem, path, header.side_files, bases)


def test_every_captured_session_comes_back_byte_for_byte_with_its_side_folder(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
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
    original = keep(Archive(tmp_path / "archive"), child).original
    assert [file.path.split("/")[0] for file in original.files] == [child.name, "bases"]


def test_keeping_again_changes_nothing_and_growth_costs_one_piece(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
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


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "other"])
def test_a_damaged_object_is_noticed_and_nothing_is_given_out(tmp_path: Path, damage: str) -> None:
    archive = Archive(tmp_path / "archive")
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    original = keep(archive, path).original
    assert not list(archive.check())
    piece = archive.folder / "objects" / original.files[0].pieces[0].hex()[:2] / original.files[0].pieces[0].hex()
    raw = piece.read_bytes()
    if damage == "gone":
        piece.unlink()
    else:
        other = Archive(tmp_path / "other")
        path.write_bytes(lines(claude_record(1, None, "user", "other")))
        foreign = keep(other, path).original.files[0].pieces[0].hex()
        piece.write_bytes(
            {
                "flip": raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:],
                "cut": raw[: len(raw) // 2],
                "other": (other.folder / "objects" / foreign[:2] / foreign).read_bytes(),
            }[damage]
        )
    assert len(list(archive.check())) == 1
    with pytest.raises(ArchiveError):
        archive.restore(original, tmp_path / "out")
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file()]


def test_restoring_over_an_existing_file_is_refused_with_nothing_written(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    path = next((FIXTURES / "captured" / "claude" / "long").rglob("*.jsonl"))
    original = keep(archive, path).original
    (tmp_path / "out" / path.stem / "tool-results").mkdir(parents=True)
    (tmp_path / "out" / original.files[-1].path).write_bytes(b"mine")
    with pytest.raises(RefusedError):
        archive.restore(original, tmp_path / "out")
    assert [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()] == [b"mine"]


def test_a_crash_at_any_write_leaves_what_was_kept_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    archive = Archive(tmp_path / "archive")
    keep(archive, path)
    path.write_bytes(lines(claude_record(1, None, "user", "hello"), claude_record(2, 1, "assistant", "more")))
    real, crashed = files.replace, 0
    for stop in (0, 1, 1):  # the piece, the list of files, the name of the session
        writes = iter(range(stop))

        def replace(target: Path, pieces: list[bytes], *, mode: int = 0o600, writes=writes) -> int:  # type: ignore[no-untyped-def]
            if next(writes, None) is None:
                raise OSError(28, "No space left on device")
            return real(target, pieces, mode=mode)

        monkeypatch.setattr(files, "replace", replace)
        with pytest.raises(OSError):
            keep(archive, path)
        crashed += 1
        monkeypatch.setattr(files, "replace", real)
        assert len(archive.originals(Harness.CLAUDE, SESSION)) == 1 and not list(archive.check())
    assert crashed == 3 and keep(archive, path).new


def test_names_that_leave_the_folder_are_not_kept_and_ids_that_are_none_refused(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    path = tmp_path / "s" / f"{SESSION}.jsonl"
    path.parent.mkdir()
    path.write_bytes(lines(claude_record(1, None, "user", "hello")))
    (tmp_path / "secret").write_text("secret")
    kept = archive.keep(Harness.CLAUDE, SESSION, path, ["../secret", "/etc/passwd", ""], [])
    assert [file.path for file in kept.original.files] == [path.name]
    with pytest.raises(RefusedError):
        archive.keep(Harness.CLAUDE, "../../x", path, [], [])


def test_a_list_of_files_put_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    path = tmp_path / f"{SESSION}.jsonl"
    names = []
    for text in ("one", "two"):
        path.write_bytes(lines(claude_record(1, None, "user", text)))
        names.append(keep(archive, path).original.name)
    first, second = (archive.folder / "objects" / name[:2] / name for name in names)
    second.write_bytes(first.read_bytes())
    assert archive.original(names[0])
    with pytest.raises(ArchiveError):
        archive.original(names[1])
