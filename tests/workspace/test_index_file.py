"""An index written here is what git reads, and what git writes is read here."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd.workspace.index_file import (
    ASSUME_VALID,
    INTENT_TO_ADD,
    SKIP_WORKTREE,
    IndexEntry,
    UnreadableIndex,
    decode,
    encode,
    filled,
    places,
    seen,
)

EMPTY = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")


def git(folder: Path, *words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "repository")
    return tmp_path / "repository"


def test_git_reads_every_flag_stage_and_length_of_name(repository: Path) -> None:
    git(repository, "hash-object", "-w", "--stdin")
    entries = [IndexEntry(path=b"x" * n, mode=0o100644, oid=EMPTY) for n in range(1, 40)]
    entries += [IndexEntry(path=b"long/" + b"d/" * 2100 + b"f", mode=0o120000, oid=EMPTY)]
    entries += [IndexEntry(path=b"both", mode=0o100755, oid=EMPTY, stage=n) for n in (1, 2, 3)]
    entries += [IndexEntry(path=b"skipped", mode=0o100644, oid=EMPTY, flags=SKIP_WORKTREE)]
    entries += [IndexEntry(path=b"assumed", mode=0o100644, oid=EMPTY, flags=ASSUME_VALID)]
    entries += [IndexEntry(path=b"intended", mode=0o100644, oid=EMPTY, flags=INTENT_TO_ADD)]
    (repository / ".git/index").write_bytes(encode(entries))
    git(repository, "fsck")
    shown = {
        (line[:1], line.split(b"\t")[1], int(line.split()[3]))
        for line in git(repository, "ls-files", "-s", "-v", "-z").split(b"\0")[:-1]
    }
    want = {(b"H", one.path, one.stage) for one in entries if not one.flags and not one.stage}
    want |= {(b"M", b"both", n) for n in (1, 2, 3)}
    want |= {(b"S", b"skipped", 0), (b"h", b"assumed", 0), (b"H", b"intended", 0)}
    assert shown == want
    raw = (repository / ".git/index").read_bytes()
    again = decode(raw)
    facts = [(one.path, one.stage, one.mode, one.oid, one.flags) for one in again]
    assert facts == sorted((one.path, one.stage, one.mode, one.oid, one.flags) for one in entries)
    assert encode(again) == raw


@pytest.mark.parametrize("version", [2, 3, 4])
def test_what_git_wrote_is_read_and_a_filled_index_is_taken_as_unchanged(repository: Path, version: int) -> None:
    paths = [b"a", b"dir/b", b"dir/b2", b"dir/deep/c"]
    for path in paths:
        file = repository / path.decode()
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(path)
    git(repository, "add", "--all")
    git(repository, "update-index", f"--index-version={version}")
    read = decode((repository / ".git/index").read_bytes())
    assert [one.path for one in read] == paths
    bare = encode([IndexEntry(path=one.path, mode=one.mode, oid=one.oid) for one in read])
    (repository / ".git/index").write_bytes(bare)
    assert git(repository, "diff-files", "--name-only"), "without a look at the disk git must not trust the entries"
    known = {path: (repository / path.decode()).lstat() for path in paths}
    whole = bytearray(bare)
    for at, piece in filled(bare, known, places(bare, known)):
        whole[at : at + len(piece)] = piece
    assert len(whole) == len(bare) and decode(whole) != decode(bare)
    (repository / ".git/index").write_bytes(whole)
    assert git(repository, "diff-files", "--name-only") == b""


def test_an_index_in_pieces_is_not_taken_for_a_whole_one(repository: Path) -> None:
    (repository / "a").write_bytes(b"a")
    git(repository, "add", "a")
    git(repository, "update-index", "--split-index")
    with pytest.raises(UnreadableIndex):
        decode((repository / ".git/index").read_bytes())


@pytest.mark.parametrize("flags", [0, SKIP_WORKTREE])
def test_entries_are_filled_where_they_are_and_no_others(tmp_path: Path, flags: int) -> None:
    """A path is not taken for the end of another one, nor a conflict for the file, nor flags for a name."""
    paths = [b"a", b"b/a", b"bb", b"c" * 5000, b"d"]
    entries = [IndexEntry(path=path, mode=0o100644, oid=EMPTY) for path in paths]
    entries += [IndexEntry(path=b"conflict", mode=0o100644, oid=EMPTY, stage=n) for n in (1, 2, 3)]
    entries += [IndexEntry(path=b"flagged", mode=0o100644, oid=EMPTY, flags=flags)]
    raw, look = encode(entries), tmp_path.lstat()
    known = dict.fromkeys([b"a", b"c" * 5000, b"flagged"], look)
    at = places(raw, {*known, b"conflict", b"nothing"})
    assert at.keys() == known.keys()
    whole = bytearray(raw)
    for begin, piece in filled(raw, known, at):
        whole[begin : begin + len(piece)] = piece
    said = {one.path: seen(look, one.mode) if one.path in known else bytes(40) for one in entries}
    assert all(one.seen[28:] == said[one.path][28:] for one in decode(bytes(whole)) if one.path in known)
    assert [one for one in decode(bytes(whole)) if one.path not in known] == [
        one for one in decode(raw) if one.path not in known
    ]
    assert hashlib.sha1(whole[:-20]).digest() == whole[-20:]
    with pytest.raises(UnreadableIndex):
        places(raw[:100], {b"a"})


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"DIRC\0\0\0\4\0\0\0\1" + rest))
def test_nothing_but_a_refusal_comes_out_of_a_damaged_index(raw: bytes) -> None:
    with contextlib.suppress(UnreadableIndex):
        decode(raw)
