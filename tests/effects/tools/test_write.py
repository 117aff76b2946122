"""A file is written whole or not at all, inside the workspace, never into git's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.effects.tools.conftest import Run

from hhd.effects.confine import Inside
from hhd.effects.tools.gitplace import is_gits_own


def test_a_new_file_with_its_folders_is_written(run: Run, folder: Path) -> None:
    reply = run("write", path="a/b/c.txt", content="one\ntwo")
    assert (reply.output, reply.is_error) == ("Created a/b/c.txt (2 lines, 7 bytes).", False)
    assert (folder / "a/b/c.txt").read_bytes() == b"one\ntwo"


def test_an_old_file_is_replaced_and_keeps_its_mode(run: Run, folder: Path) -> None:
    (folder / "run").write_text("old and longer")
    (folder / "run").chmod(0o755)
    assert run("write", path="run", content="é\r\n").output == "Replaced run (1 line, 4 bytes)."
    assert (folder / "run").read_bytes() == "é\r\n".encode()
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o755


def test_a_link_inside_is_written_through_and_stays_a_link(run: Run, folder: Path) -> None:
    (folder / "real").write_text("old")
    (folder / "link").symlink_to("real")
    assert "real" in run("write", path="link", content="new").output
    assert (folder / "link").is_symlink() and (folder / "real").read_text() == "new"


def test_a_folder_a_pipe_and_what_is_outside_are_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "out").symlink_to(tmp_path)
    for path in ("sub", ".", "fifo", "../x", "out/x", str(tmp_path / "x")):
        assert run("write", path=path, content="x").is_error, path
    assert sorted(os.listdir(tmp_path)) == ["work"]


def test_too_much_content_is_refused(run: Run, folder: Path) -> None:
    assert run("write", path="a", content="x" * (16 * 1024 * 1024 + 1)).is_error
    assert os.listdir(folder) == []


GITS = [
    ".git/hooks/pre-commit", ".git/config", ".git", "sub/.git/config", ".GIT/config", ".Git/x", ".git./x", ".git /x",
    "git~1/config", "GIT~1/x", ".g\u200cit/config", ".git\u200f/x", ".git::$INDEX_ALLOCATION/x", ".\uff47it/config",
]  # fmt: skip


@pytest.mark.parametrize("path", GITS)
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_gits_own_files_are_not_written_in_any_spelling(run: Run, folder: Path, path: str, tool: str) -> None:
    target = folder / path
    if tool == "edit":
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("old")
    given = {"content": "x"} if tool == "write" else {"old": "old", "new": "x"}
    reply = run(tool, path=path, **given)
    assert reply.is_error and "belongs to git" in reply.output
    assert tool == "write" or target.read_text() == "old"


def test_a_link_to_gits_own_files_is_no_way_around(run: Run, folder: Path) -> None:
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / "docs").symlink_to(".git/hooks")
    assert "belongs to git" in run("write", path="docs/pre-commit", content="x").output
    assert os.listdir(folder / ".git/hooks") == []


@pytest.mark.parametrize(
    "path", [".github/workflows/x.yml", ".gitignore", ".gitattributes", "git/x", "a.git/x", "git~2"]
)
def test_the_persons_files_with_like_names_are_written(run: Run, folder: Path, path: str) -> None:
    assert not is_gits_own(Inside(parts=tuple(path.split("/"))))
    assert not run("write", path=path, content="x").is_error
    assert (folder / path).read_text() == "x"
