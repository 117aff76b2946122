"""Searches answer the same for the same files, in order, within bounds, and never leave the workspace."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.effects.tools.conftest import Run

from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.tools import glob as glob_module
from hhd.effects.tools import search


def plant(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x\n")


def test_glob_finds_paths_in_order(run: Run, folder: Path) -> None:
    plant(folder, "b.py", "a.py", "a/x.py", "a/y.txt", "a-b/x.py", "src/deep/er/z.py", ".hidden/h.py")
    found = run("glob", pattern="**/*.py").output.split("\n")
    assert found == [".hidden/h.py", "a-b/x.py", "a.py", "a/x.py", "b.py", "src/deep/er/z.py"]
    assert found == sorted(found)
    assert run("glob", pattern="*").output.split("\n") == [".hidden/", "a-b/", "a.py", "a/", "b.py", "src/"]
    assert run("glob", pattern="*.py", path="a").output == "a/x.py"
    assert run("glob", pattern="{a,src/**}/*.{py,txt}").output.split("\n") == ["a/x.py", "a/y.txt", "src/deep/er/z.py"]
    nothing = run("glob", pattern="*.rs")
    assert (nothing.output, nothing.is_error) == ("No path fits.", False)


def test_grep_finds_lines_in_order(run: Run, folder: Path) -> None:
    (folder / "b.txt").write_text("one\r\nTwo\nthree two\n")
    (folder / "a").mkdir()
    (folder / "a/c.py").write_text("two = 2")
    assert run("grep", pattern="two").output == "a/c.py:1:two = 2\nb.txt:3:three two"
    assert run("grep", pattern="^t", ignore_case=True).output == "a/c.py:1:two = 2\nb.txt:2:Two\nb.txt:3:three two"
    assert run("grep", pattern="e$").output == "b.txt:1:one"
    assert run("grep", pattern="two", glob="*.py").output == "a/c.py:1:two = 2"
    assert run("grep", pattern="two", glob="a/*").output == "a/c.py:1:two = 2"
    assert run("grep", pattern="two", path="b.txt").output == "b.txt:3:three two"
    assert run("grep", pattern="two", path="a").output == "a/c.py:1:two = 2"
    assert run("grep", pattern="zzz").output == "No line matches."
    assert run("grep", pattern="t", limit=1).output == "a/c.py:1:two = 2\n[left out: lines: there are more]"


def test_what_git_ignores_is_left_out_unless_the_search_begins_there(run: Run, folder: Path) -> None:
    plant(
        folder,
        "a.py",
        "build/b.py",
        "sub/c.py",
        "sub/gen/d.py",
        "sub/keep.log",
        "x.log",
        ".git/config",
        "sub/.git/config",
    )
    (folder / ".gitignore").write_text("build/\n*.log\n")
    (folder / "sub/.gitignore").write_text("gen\n!keep.log\n")
    found = run("glob", pattern="**/*").output.split("\n")
    assert found == [".gitignore", "a.py", "sub/.gitignore", "sub/c.py", "sub/keep.log"]
    assert run("glob", pattern="*.py", path="build").output == "build/b.py"
    assert run("grep", pattern="x", path="sub/gen").output == "sub/gen/d.py:1:x"
    assert run("grep", pattern="x", path=".git").output == ".git/config:1:x"


def test_ignoring_agrees_with_git(run: Run, folder: Path) -> None:
    paths = ["a/b/c.o", "a/b/d", "a/keep/c.o", "x/y/z", "x/y/w", "top", "sub/top", "q r", "lib/a.js", "lib/b/a.js"]
    plant(folder, *paths)
    (folder / ".gitignore").write_text("*.o\n!keep/*.o\n/top\nx/**/z\nlib/*.js\nq\\ r\n# no\n")
    (folder / "a/.gitignore").write_text("d\n")
    try:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert run("glob", pattern="**/*").output.split("\n") == sorted(listed.stdout.split())


def test_links_are_not_followed_and_special_files_are_not_opened(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (folder / "link").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "fifo")
    plant(folder, "a")
    assert run("grep", pattern="secret|x").output == "a:1:x"
    assert run("glob", pattern="**/secret").output == "No path fits."
    assert run("glob", pattern="up/*").output == "No path fits."
    assert run("grep", pattern="x", path="up").is_error
    assert run("grep", pattern="x", path="..").is_error
    assert (folder / "up/secret").read_text() == "secret\n"  # Control.


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../x", "", "\0", "{" + ",".join("x" * 99) + "}"])
def test_a_pattern_without_meaning_is_said(run: Run, folder: Path, pattern: str) -> None:
    plant(folder, "a")
    assert run("glob", pattern=pattern).is_error


def test_a_place_that_cannot_be_searched_is_not_called_a_folder(run: Run, folder: Path) -> None:
    plant(folder, "a")
    for list_ in ("glob", "grep"):
        refused = run(list_, pattern="x", path="none")
        assert refused.is_error and "The path cannot be searched (No such file or directory)." in refused.output


@pytest.mark.parametrize("pattern", ["(", "[", "(?P<x", "*", "a{1000}{1000}{1000}{1000}", "(" * 5000 + ")" * 5000])
def test_an_expression_without_meaning_is_said(run: Run, folder: Path, pattern: str) -> None:
    plant(folder, "a")
    assert run("grep", pattern=pattern[:4096]).is_error


def test_an_expression_that_would_run_for_years_is_ended(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS_MAX", 1.0)
    (folder / "a").write_text("a" * 5000 + "\n")
    reply = run("grep", pattern="(a|a)*b" + "(a*)*c")
    assert reply.is_error and "took more than 1 seconds" in reply.output


def test_a_pattern_for_paths_cannot_be_made_slow(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS_MAX", 10.0)
    (folder / ("a" * 200)).touch()
    deep = folder / "/".join("b" * 60)
    deep.mkdir(parents=True)
    assert run("glob", pattern="*a" * 100 + "*b").output == "No path fits."
    assert run("glob", pattern="**/b/" * 100 + "x").output == "No path fits."


def test_a_person_can_end_a_search(run: Run, folder: Path, cancel: Cancel) -> None:
    (folder / "a").write_text("a" * 5000 + "\n")
    timer = threading.Timer(0.3, cancel.set)
    timer.start()
    with pytest.raises(Interrupted):
        run("grep", pattern="(a|a)*b")
    timer.join()


def test_binary_and_large_files_are_passed_over_and_long_lines_cut(run: Run, folder: Path) -> None:
    (folder / "bin").write_bytes(b"x\0x")
    (folder / "wide").write_bytes("ax\n".encode("utf-16"))
    (folder / "latin").write_bytes(b"\xe9x\n")
    (folder / "min.js").write_text("x" * 2000)
    (folder / "big").write_bytes(b"x\n" * 5_000_000)
    lines = run("grep", pattern="x").output.split("\n")
    assert lines[0] == "latin:1:éx"
    assert lines[1] == "min.js:1:" + "x" * 500 + " [1500 characters more]"
    assert lines[2].startswith("wide:1:") and lines[2].endswith("ax")
    assert lines[3:] == ["[left out: files too large, unreadable or not plain]"]


def test_too_many_paths_are_cut_and_said(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(folder, *(f"f{number}" for number in range(20)))
    monkeypatch.setattr(glob_module, "SEARCH_PATHS_MAX", 5)
    assert run("glob", pattern="**").output == "f0\nf1\nf10\nf11\nf12\n[left out: paths: the pattern is too wide]"
    monkeypatch.setattr(search, "SEARCH_ENTRIES_MAX", 3)
    assert run("glob", pattern="**").output == "f0\nf1\nf10\n[left out: the rest: too many files]"


def test_a_name_made_to_mislead_is_shown_as_it_is(run: Run, folder: Path) -> None:
    (folder / "a\nb").write_text("x")
    (folder / os.fsdecode(b"\xff")).write_text("x")
    assert run("glob", pattern="*").output.split("\n") == ["a\\x0ab", "\\xff"]


def test_hhds_own_folders_are_left_out(folder: Path, cancel: Cancel) -> None:
    from tests.effects.tools.conftest import PATH, PLAIN

    from hhd.effects.confine import Workspace
    from hhd.effects.tools.table import TOOLS
    from hhd.effects.tools.tool import Context

    plant(folder, "a", "own/key")
    tool = TOOLS["grep"]
    for hidden, expected in (([folder / "own"], "a:1:x"), ([], "a:1:x\nown/key:1:x")):
        with Workspace(folder, hidden=hidden) as workspace:
            context = Context(workspace=workspace, sandbox=PLAIN, environment=PATH, cancel=cancel)
            assert tool.act(tool.input(pattern="x"), context).output == expected
