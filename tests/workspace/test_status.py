"""What git says of a working tree: the quick way of sorting what is not tracked says the same as the slow one."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest
from tests.workspace.lab import git, repository

from hhd.workspace import status as module
from hhd.workspace.git import Git, GitFailed
from hhd.workspace.place import find
from hhd.workspace.status import Status, status
from hhd.workspace.view import View

IGNORED = b"*.log\n!kept.log\n/top\nsub/gone*\nbuilt/\n\xc3\xa9*\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = repository(tmp_path / "repo", {".gitignore": IGNORED, "a": b"a\n", "sub/t": b"t\n"})
    (made / "built").mkdir()
    (made / "built" / "tracked").write_bytes(b"t\n")
    git(made, "add", "-f", "built/tracked")
    git(made, "commit", "-qm", "two")
    return made


def asked(repo: Path) -> tuple[Status, list[str]]:
    """What git says, and which of its commands were run for that."""
    place = find(repo)
    assert place is not None
    with View(place) as view, mock.patch.object(Git, "ended", autospec=True, side_effect=Git.ended) as ended:
        return status(view), sorted(one.args[1] for one in ended.call_args_list)


def names(repo: Path) -> None:
    """Files, all beside tracked ones, of every kind of name."""
    for name in (b"n.log", b"kept.log", b"top", b"sub/top", b"sub/gone", b"sub/new", b"built/inside", b'we"ird\nname',
                 b"\xff", b"\xc3\xa9t\xc3\xa9", b" spaced ", b":(top)x", b"*", b"\\back"):  # fmt: skip
        (repo / os.fsdecode(name)).write_bytes(b"x")
    (repo / "a").write_bytes(b"b\n")
    (repo / "link").symlink_to("nowhere")


def test_files_are_sorted_by_their_names_alone_as_a_whole_status_would(repo: Path) -> None:
    names(repo)
    quick, ran = asked(repo)
    assert ran == ["check-ignore", "ls-files", "status"]
    with mock.patch.object(module, "_sorted_out", return_value=None):
        slow, ran = asked(repo)
    assert ran == ["ls-files", "status", "status"]
    assert (quick.changed, set(quick.untracked), set(quick.ignored)) == (
        slow.changed, set(slow.untracked), set(slow.ignored),
    )  # fmt: skip
    assert set(quick.ignored) == {b"n.log", b"top", b"sub/gone", b"built/inside", b"\xc3\xa9t\xc3\xa9"}


def test_files_none_of_which_is_ignored_are_all_new(repo: Path) -> None:
    (repo / "new").write_bytes(b"x")
    found, ran = asked(repo)
    assert (found.untracked, found.ignored) == ([b"new"], []) and "check-ignore" in ran


def test_where_there_is_a_folder_among_it_all_is_looked_at(repo: Path) -> None:
    names(repo)
    (repo / "folder").mkdir()
    (repo / "folder" / "n.log").write_bytes(b"x")
    found, ran = asked(repo)
    assert ran == ["ls-files", "status", "status"]
    assert {b"folder/n.log", b"n.log"} <= set(found.ignored) and b"sub/new" in found.untracked


@pytest.mark.parametrize("trouble", ["fails", "says less"])
def test_where_git_cannot_tell_all_is_looked_at(repo: Path, trouble: str) -> None:
    names(repo)
    expected, _ = asked(repo)

    def ended(git: Git, *words: str, **more: object) -> tuple[bytes, bytes]:
        said = before(git, *words, **more)  # type: ignore[arg-type]
        if words[0] == "check-ignore":
            if trouble == "fails":
                raise GitFailed("beyond a symbolic link")
            return said[0].partition(b"\0")[2], said[1]
        return said

    before = Git.ended
    place = find(repo)
    assert place is not None
    with View(place) as view, mock.patch.object(Git, "ended", ended):
        assert set(status(view).ignored) == set(expected.ignored)
