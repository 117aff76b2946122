"""A repository that names programs wherever git looks: none of them runs, and each does in a plain git."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.lab import Pieces, git, repository

from hhd.base.errors import RefusedError, UserError
from hhd.workspace import capture_repository, view
from hhd.workspace.capture import capture
from hhd.workspace.wanted import Wanted

Attack = Callable[[Path, str], None]
ATTACKS: dict[str, Attack] = {}


def attack(build: Attack) -> Attack:
    ATTACKS[build.__name__] = build
    return build


def _program(folder: Path, touch: str) -> str:
    program = folder / ".git/payload"
    program.write_text(f"#!/bin/sh\n{touch}\ncat\n")
    program.chmod(0o755)
    return str(program)


@attack
def fsmonitor(folder: Path, touch: str) -> None:
    git(folder, "config", "core.fsmonitor", _program(folder, touch))


@attack
def clean_filter(folder: Path, touch: str) -> None:
    git(folder, "config", "filter.evil.clean", _program(folder, touch))
    (folder / ".gitattributes").write_text("* filter=evil\n")
    (folder / "one").write_bytes(b"2\n")


@attack
def process_filter(folder: Path, touch: str) -> None:
    git(folder, "config", "filter.evil.process", _program(folder, touch))
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text("* filter=evil\n")
    (folder / "one").write_bytes(b"2\n")


@attack
def filter_of_an_included_file(folder: Path, touch: str) -> None:
    (folder / "settings").write_text(f'[filter "x"]\nclean = {_program(folder, touch)}\n')
    git(folder, "config", "include.path", "../settings")
    (folder / ".gitattributes").write_text("one filter=x\n")
    (folder / "one").write_bytes(b"2\n")


@attack
def hook_after_the_index_changes(folder: Path, touch: str) -> None:
    hook = folder / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{touch}\n")
    hook.chmod(0o755)
    os.utime(folder / "one", ns=(10**18, 10**18))


@attack
def hooks_elsewhere(folder: Path, touch: str) -> None:
    hook_after_the_index_changes(folder, touch)
    (folder / ".git/hooks").rename(folder / "myhooks")
    git(folder, "config", "core.hooksPath", "myhooks")


@attack
def fsmonitor_of_a_submodule(folder: Path, touch: str) -> None:
    inner = repository(folder.parent / "inner", {"x": b"x"})
    git(folder, "submodule", "-q", "add", str(inner), "module")
    git(folder, "commit", "-qm", "module")
    git(folder / "module", "config", "core.fsmonitor", _program(folder, touch))


def _payload_ran(folder: Path, mark: Path, act: Callable[[], object]) -> bool:
    mark.unlink(missing_ok=True)
    with contextlib.suppress(UserError):
        act()
    return mark.exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_that_came_with_a_repository_runs(name: str, tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    mark = tmp_path / "touched"
    ATTACKS[name](folder, f"touch '{mark}'")
    for wanted in (Wanted(), Wanted(published=True, named=frozenset({b"one"}))):
        assert not _payload_ran(folder, mark, lambda w=wanted: capture(folder, None, Pieces().put, wanted=w))
    assert _payload_ran(folder, mark, lambda: git(folder, "status")), "the payload works"


@pytest.mark.parametrize("name", ["fsmonitor", "clean_filter", "filter_of_an_included_file"])
def test_with_the_guards_off_the_same_capture_runs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own code with the repository's settings instead of ours, and nothing overridden."""
    folder = repository(tmp_path / "source")
    mark = tmp_path / "touched"
    ATTACKS[name](folder, f"touch '{mark}'")

    def make(self: view.View) -> None:
        self._folder = self.place.git_dir

    monkeypatch.setattr(view.View, "_make", make)
    monkeypatch.setattr(view.View, "close", lambda self: None)
    monkeypatch.setattr("hhd.workspace.git.Git.command", lambda self, words: ["git", *self._where(), *words])
    assert _payload_ran(folder, mark, lambda: capture(folder, None, Pieces().put))


def test_a_nested_repository_is_not_asked(tmp_path: Path) -> None:
    """The attack that was tried: a repository within the folder, whose settings name a program."""
    folder = repository(tmp_path / "source")
    nested = repository(folder / "nested", {"x": b"x"})
    mark = tmp_path / "touched"
    git(nested, "config", "core.fsmonitor", _program(nested, f"touch '{mark}'"))
    assert not _payload_ran(folder, mark, lambda: capture(folder, None, Pieces().put))
    assert _payload_ran(nested, mark, lambda: git(nested, "status"))


def test_variables_that_lead_git_elsewhere_are_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = repository(tmp_path / "source"), repository(tmp_path / "other", {"other": b"x"})
    expected = capture(folder, None, Pieces().put)
    mark = tmp_path / "touched"
    for name, value in {
        "GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"), "GIT_CONFIG_COUNT": "1", "GIT_NAMESPACE": "x",
        "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": f"touch {mark}",
        "GIT_EXTERNAL_DIFF": f"touch {mark}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert capture(folder, None, Pieces().put) == expected
    assert not mark.exists()


def test_missing_objects_of_a_partial_clone_are_not_fetched(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", {"one": b"1\n", "big": os.urandom(10_000)})
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{origin}", "source")
    folder, mark = tmp_path / "source", tmp_path / "touched"
    git(folder, "config", "remote.origin.uploadpack", f"touch '{mark}'; false")
    assert not _payload_ran(folder, mark, lambda: capture(folder, None, Pieces().put))
    git(folder, "checkout", check=False)
    assert mark.exists()


def test_git_that_keeps_changing_the_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository(tmp_path / "source")
    real, count = capture_repository.operation, 0

    def busy(place_view: view.View) -> object:
        nonlocal count
        count += 1
        (folder / "one").write_bytes(b"%d\n" % count)
        git(folder, "add", "one")
        return real(place_view)

    monkeypatch.setattr(capture_repository, "operation", busy)
    with pytest.raises(UserError, match="keeps changing"):
        capture(folder, None, Pieces().put)
    monkeypatch.setattr(capture_repository, "operation", lambda one: busy(one) if count < 4 else real(one))
    made = capture(folder, None, Pieces().put)
    assert made.repository is not None and [one.path for one in made.repository.index] == [b"one"]


def test_settings_that_are_no_settings_end_in_a_sentence(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    for raw in (b"[core\n", b"\xff\xfe\0", b"[core]\nrepositoryformatversion = 99\n[include]\npath = config\n"):
        (folder / ".git/config").write_bytes(raw)
        with contextlib.suppress(UserError):
            capture(folder, None, Pieces().put)
    git_dir = folder / ".git"
    (git_dir / "config").write_bytes(b"")
    for name, raw in {
        "index": b"DIRC" + bytes(40),
        "HEAD": b"ref: ../../x\n",
        "shallow": b"zz\n",
        "MERGE_HEAD": b"\xff\n",
    }.items():
        kept = (git_dir / name).read_bytes() if (git_dir / name).exists() else None
        (git_dir / name).write_bytes(raw)
        with pytest.raises(UserError):
            capture(folder, None, Pieces().put)
        (git_dir / name).unlink() if kept is None else (git_dir / name).write_bytes(kept)
    capture(folder, None, Pieces().put)


def test_where_the_view_is_made_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    capture(repository(tmp_path / "source"), None, Pieces().put)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    "name",
    ["info/exclude", "info/attributes", "MERGE_MSG", "MERGE_HEAD", "commondir", "config", "packed-refs", "index"],
)
def test_a_pipe_among_gits_files_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = repository(tmp_path / "source")
    (folder / ".git" / name).unlink(missing_ok=True)
    (folder / ".git/info").mkdir(exist_ok=True)
    os.mkfifo(folder / ".git" / name)
    held = os.open(folder / ".git" / name, os.O_RDWR)  # Who opens it waits for words, not for a writer.
    try:
        with pytest.raises(RefusedError, match="no file"):
            capture(folder, None, Pieces().put)
    finally:
        os.close(held)


def test_settings_that_include_a_pipe_end_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = repository(tmp_path / "source")
    os.mkfifo(tmp_path / "pipe")
    git(folder, "config", "include.path", str(tmp_path / "missing"))
    assert capture(folder, None, Pieces().put).repository is not None
    config = folder / ".git/config"
    config.write_text(config.read_text().replace(str(tmp_path / "missing"), str(tmp_path / "pipe")))
    monkeypatch.setattr("hhd.workspace.view._SETTINGS_SECONDS_MAX", 0.5)
    with pytest.raises(RefusedError, match="does not come to an end"):
        capture(folder, None, Pieces().put)
