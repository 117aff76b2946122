"""A clone of a repository elsewhere: what its remotes have comes along where it is little, so that nobody needs it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.workspace.lab import Pieces, git, made_from, repository, seen

from hhd.workspace.capture import capture
from hhd.workspace.wanted import Wanted
from hhd_protocol.workspace import Capture

MUCH = 2**20


def taken(folder: Path, pieces: Pieces, before: Capture | None = None, *, trees_bytes_max: int = MUCH) -> Capture:
    return capture(folder, before, pieces.put, wanted=Wanted(published=True, trees_bytes_max=trees_bytes_max))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a history of three commits at its origin."""
    origin = repository(tmp_path / "origin")
    (origin / "old").write_bytes(b"of an older commit\n" * 50)
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "old")
    git(origin, "rm", "-q", "old")
    git(origin, "commit", "-qm", "gone")
    git(tmp_path, "clone", "-q", str(origin), "source")
    return tmp_path / "source"


def commits(folder: Path) -> int:
    return int(git(folder, "rev-list", "--count", "HEAD"))


@pytest.mark.parametrize("shallow", [False, True])
def test_it_is_whole_without_its_origin_with_what_was_never_published(
    tmp_path: Path, clone: Path, shallow: bool
) -> None:
    if shallow:
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{tmp_path}/origin", "short")
        clone = tmp_path / "short"
    pieces = Pieces()
    untouched = taken(clone, pieces)
    assert seen(made_from(untouched, pieces, tmp_path / "untouched")) == seen(clone)
    (clone / "one").write_bytes(b"mine\n")
    git(clone, "commit", "-qam", "mine")
    (clone / "one").write_bytes(b"mine, unstaged\n")
    for name, before in ("at once", None), ("upon that", untouched):
        made = taken(clone, pieces, before)
        assert made.repository is not None and not made.repository.history.assumed
        target = made_from(made, pieces, tmp_path / name)
        assert seen(target) == seen(clone) and commits(target) == 2, "what is published, and what is not"
        git(target, "fsck", "--full")


def test_what_an_older_commit_had_comes_with_a_new_one_that_has_it_again(tmp_path: Path, clone: Path) -> None:
    """Also where git has bitmaps, by which all that the history ever held would count as there."""
    git(clone, "repack", "-qadb")
    git(clone, "checkout", "-q", "HEAD~1", "--", "old")
    git(clone, "commit", "-qm", "again")
    pieces = Pieces()
    target = made_from(taken(clone, pieces), pieces, tmp_path / "target")
    assert (target / "old").read_bytes() == (clone / "old").read_bytes()


def test_what_is_much_is_taken_for_there(clone: Path) -> None:
    for most, assumed in (MUCH, False), (10, True):
        made = taken(clone, Pieces(), trees_bytes_max=most)
        assert made.repository is not None and bool(made.repository.history.assumed) is assumed


def test_of_a_partial_clone_what_is_at_the_remote_only_is_taken_for_there(tmp_path: Path, clone: Path) -> None:
    git(tmp_path / "origin", "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{tmp_path}/origin", "partial")
    made = taken(tmp_path / "partial", Pieces())
    assert made.repository is not None and made.repository.history.assumed


def test_a_history_that_no_remote_has_is_not_taken_for_published(tmp_path: Path, clone: Path) -> None:
    git(clone, "checkout", "-q", "--orphan", "other")
    git(clone, "commit", "-qm", "of its own")
    for most in 0, MUCH:
        pieces = Pieces()
        made = taken(clone, pieces, trees_bytes_max=most)
        assert made.repository is not None and not made.repository.history.assumed
        assert seen(made_from(made, pieces, tmp_path / f"target{most}")) == seen(clone)


@pytest.mark.parametrize("cloned", [True, False])
@pytest.mark.parametrize("old", ["HEAD~1", "HEAD~2"])
def test_an_older_commit_that_is_gone_back_to_comes_along(tmp_path: Path, clone: Path, cloned: bool, old: str) -> None:
    """What came before ends with the commit that was left: it holds nothing of those that it rests on."""
    folder, pieces = clone if cloned else tmp_path / "origin", Pieces()
    before = taken(folder, pieces)
    git(folder, "reset", "-q", "--hard", old)
    made = taken(folder, pieces, before)
    target = made_from(made, pieces, tmp_path / "target")
    assert seen(target) == seen(folder)
    git(target, "fsck", "--full")


@pytest.mark.parametrize("first", [True, False])
def test_a_published_branch_that_is_being_merged_comes_along_from_where_it_parted(
    tmp_path: Path, clone: Path, first: bool
) -> None:
    origin = tmp_path / "origin"
    git(origin, "checkout", "-qb", "feature", "HEAD~1")
    (origin / "one").write_bytes(b"theirs\n")
    git(origin, "commit", "-qam", "theirs")
    git(clone, "fetch", "-q")
    (clone / "one").write_bytes(b"mine\n")
    git(clone, "commit", "-qam", "mine")
    pieces = Pieces()
    before = None if first else taken(clone, pieces)
    git(clone, "merge", "-q", "origin/feature", check=False)
    made = taken(clone, pieces, before)
    assert made.repository is not None and made.repository.operation is not None
    target = made_from(made, pieces, tmp_path / "target")
    for one in made.repository.operation.heads:
        git(target, "rev-list", "--objects", one.hex())
    assert (target / "old").exists() is False and seen(target) == seen(clone)


@pytest.mark.parametrize("much", [True, False])
def test_what_is_fetched_comes_along_as_it_is_now_where_all_that_it_went_through_is_much(
    tmp_path: Path, clone: Path, much: bool
) -> None:
    pieces, origin = Pieces(), tmp_path / "origin"
    before = taken(clone, pieces)
    (origin / "large").write_bytes(random.Random(1).randbytes(MUCH + 1 if much else 10))
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "large")
    git(origin, "rm", "-q", "large")
    git(origin, "commit", "-qm", "gone again")
    git(clone, "pull", "-q")
    made = taken(clone, pieces, before)
    assert made.repository is not None and not made.repository.history.assumed
    assert sum(one.size for one in made.repository.history.packs) < MUCH
    target = made_from(made, pieces, tmp_path / "target")
    assert seen(target) == seen(clone) and commits(target) == (1 if much else 3)
