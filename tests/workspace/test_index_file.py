"""An index written here is what git reads, and what git writes is read here."""

from __future__ import annotations

import contextlib
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
    fill,
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
    (repository / ".git/index").write_bytes(fill(bare, known))
    assert git(repository, "diff-files", "--name-only") == b""


def test_an_index_in_pieces_is_not_taken_for_a_whole_one(repository: Path) -> None:
    (repository / "a").write_bytes(b"a")
    git(repository, "add", "a")
    git(repository, "update-index", "--split-index")
    with pytest.raises(UnreadableIndex):
        decode((repository / ".git/index").read_bytes())


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"DIRC\0\0\0\4\0\0\0\1" + rest))
def test_nothing_but_a_refusal_comes_out_of_a_damaged_index(raw: bytes) -> None:
    with contextlib.suppress(UnreadableIndex):
        decode(raw)
