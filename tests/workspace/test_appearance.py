"""What a folder looks like is otherwise after every change that a capture would have, and the same after none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.lab import git, repository
from tests.workspace.looks import long_ago, unseen

from hhd.workspace import appearance as module
from hhd.workspace.appearance import appearance
from hhd.workspace.capture import capture


def _moved(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "two")


def _linked(repo: Path) -> None:
    (repo / "link").unlink()
    (repo / "link").symlink_to("else")


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda repo: (repo / "f").write_text("other\n"),
    "an edit of the same size with its time put back": lambda repo: unseen(repo / "f", b"ONE\n"),
    "a mode": lambda repo: (repo / "f").chmod(0o755),
    "a new file": lambda repo: (repo / "deep" / "new").write_text("new\n"),
    "a new empty folder": lambda repo: (repo / "deep" / "empty").mkdir(),
    "a file gone": lambda repo: (repo / "deep" / "g").unlink(),
    "a file that moved": lambda repo: (repo / "f").rename(repo / "deep" / "f"),
    "a link elsewhere": _linked,
}
GIT_CHANGES: dict[str, Callable[[Path], object]] = {
    "the index": lambda repo: git(repo, "update-index", "--assume-unchanged", "f"),
    "a commit": _moved,
    "a branch": lambda repo: git(repo, "checkout", "-q", "-b", "other"),
    "what is ignored": lambda repo: (repo / ".git" / "info" / "exclude").write_text("g\n"),
    "a setting": lambda repo: git(repo, "config", "core.fileMode", "false"),
    "a merge": lambda repo: (repo / ".git" / "MERGE_MSG").write_text("m\n"),
}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    long_ago(monkeypatch)
    made = repository(tmp_path / "repo")
    _fill(made)
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "one")
    return made


def _fill(folder: Path) -> None:
    (folder / "deep").mkdir(parents=True)
    (folder / "f").write_text("one\n")
    (folder / "deep" / "g").write_text("two\n")
    (folder / "link").symlink_to("deep")


@pytest.mark.parametrize("change", [*CHANGES, *GIT_CHANGES])
def test_a_repository_looks_otherwise_after_each_kind_of_change_and_as_before_after_a_capture(
    repo: Path, change: str
) -> None:
    before = appearance(repo)
    capture(repo, None, lambda raw: raw[:32].ljust(32))  # type: ignore[arg-type,return-value]
    (repo / "f").read_bytes()
    assert before is not None and appearance(repo / "deep") == before, "to look and to read is no change"
    (CHANGES | GIT_CHANGES)[change](repo)
    assert appearance(repo) not in (None, before)


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_that_is_no_repository_does_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    long_ago(monkeypatch)
    _fill(tmp_path / "plain")
    before = appearance(tmp_path / "plain")
    assert before is not None and appearance(tmp_path / "plain") == before
    CHANGES[change](tmp_path / "plain")
    assert appearance(tmp_path / "plain") not in (None, before)


def test_what_was_just_written_a_repository_inside_and_a_large_one_are_not_told_by_a_look(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert appearance(repo) is not None
    with monkeypatch.context() as patch:
        patch.setattr(module, "TICK_NS", 10**18)
        patch.setattr(module, "RACY_NS", 10**18)
        assert appearance(repo) is None
    with monkeypatch.context() as patch:
        patch.setattr(module, "THINGS_MAX", 3)
        assert appearance(repo) is None
    repository(repo / "inner")
    assert appearance(repo) is None
    assert appearance(repo / "nowhere") is None


def test_of_a_repository_whose_index_names_too_many_no_name_is_looked_at(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[Path] = []
    walk = module._walked

    def counted(top: Path, *more: Any, **named: Any) -> Iterator[bytes]:
        walked.append(top)
        return walk(top, *more, **named)

    monkeypatch.setattr(module, "_walked", counted)
    assert appearance(repo) is not None and walked
    index = (repo / ".git" / "index").read_bytes()
    walked.clear()
    (repo / ".git" / "index").write_bytes(index[:8] + (4_001).to_bytes(4, "big") + index[12:])
    assert appearance(repo) is None and not walked
    (repo / ".git" / "index").write_bytes(b"XIRC" + index[4:8] + (4_001).to_bytes(4, "big"))
    assert appearance(repo) is not None, "it is no index, and says nothing"


def test_a_time_without_parts_of_a_second_is_trusted_after_two_of_them_and_others_sooner() -> None:
    def stamp(changed: int) -> tuple[int, int, int, int, int]:
        return (1, 1, 0, changed, 0o100644)

    now = 1_764_000_010 * 10**9
    assert not module._is_certain(stamp(now - 10**9), now), "it may be a clock of whole seconds"
    assert module._is_certain(stamp(now - 3 * 10**9), now)
    assert module._is_certain(stamp(now - 10**9 - 1), now)
    assert not module._is_certain(stamp(now - 50_000_001), now)
    assert not module._is_certain(stamp(now + 60 * 10**9 + 1), now), "a clock that is ahead"


def test_hhds_own_folders_and_the_objects_of_git_are_not_looked_into(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = repo / "own"
    own.mkdir()
    monkeypatch.setattr("hhd.workspace.capture.own_folders", lambda: [own])
    before = appearance(repo)
    (own / "store").write_text("x")
    (repo / ".git" / "objects" / "more").write_text("x")
    assert before is not None and appearance(repo) == before
    (repo / "notown").write_text("x")
    assert appearance(repo) != before


def test_a_folder_that_cannot_be_read_is_not_told_by_a_look(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert appearance(repo) is not None

    def refused(fd: int, prefix: bytes) -> int:
        if prefix:
            raise PermissionError
        return os.dup(fd)

    monkeypatch.setattr(module, "open_below", refused)
    assert appearance(repo) is None
