"""In the sandbox git works, and what git runs stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.effects.test_sandbox import OFF, bash

from hhd.effects.sandbox import Sandbox, SandboxConfig, detect


@pytest.fixture
def walls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sandbox:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = detect()
    if found.program is None:
        pytest.skip(f"there is no sandbox here: {found.reason}")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return found


NAMED = {"GIT_AUTHOR_NAME": "alice", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "alice",
         "GIT_COMMITTER_EMAIL": "a@example.org"}  # fmt: skip


def git(folder: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **NAMED}
    return subprocess.run(
        ["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "file").write_text("one\n")
    git(place, "add", "file")
    git(place, "commit", "-qm", "one")
    return place


COMMIT = (
    "echo two > file && git add file && git commit -qm two && git checkout -qb other && git stash list && git gc -q"
)


def test_committing_and_branching_go_on(repository: Path, walls: Sandbox) -> None:
    reply = bash(COMMIT, repository, walls, **NAMED)
    assert not reply.is_error, reply.output
    assert git(repository, "log", "--format=%s", "other").split() == ["two", "one"]


EVIL = [
    "git config core.fsmonitor ./evil",
    "echo '[core] fsmonitor = ./evil' >> .git/config",
    "echo evil > .git/hooks/post-checkout",
    "mkdir -p .git/hooks && echo evil > .git/hooks/post-checkout",
    "mv .git/config .git/config2 && cp .git/config2 .git/config && git config core.fsmonitor ./evil",
    "mv .git .git2 && cp -r .git2 .git && git config core.fsmonitor ./evil",
    "rm -rf .git/hooks; mkdir .git/hooks && echo evil > .git/hooks/x",
    "mv .git/hooks .git/h && mkdir .git/hooks && echo evil > .git/hooks/x",
]


@pytest.mark.parametrize("command", EVIL)
@pytest.mark.parametrize("hooks", [True, False])
def test_what_git_runs_cannot_be_changed(repository: Path, walls: Sandbox, command: str, hooks: bool) -> None:
    shutil.rmtree(repository / ".git/hooks", ignore_errors=True)
    if hooks:
        (repository / ".git/hooks").mkdir()
    config = (repository / ".git/config").read_bytes()
    bash(f"({command}) 2>/dev/null; true", repository, walls)
    assert (repository / ".git/config").read_bytes() == config
    assert os.listdir(repository / ".git/hooks") == []
    assert not bash(f"({command}) 2>/dev/null", repository, OFF).is_error
    changed = (repository / ".git/config").read_bytes() != config or os.listdir(repository / ".git/hooks") != []
    assert changed, "control: without walls it can"


def test_the_person_can_open_it(repository: Path, walls: Sandbox) -> None:
    opened = detect(SandboxConfig(git="writable"))
    assert not bash("git config user.name bob", repository, opened).is_error
    assert bash("git config user.name carol", repository, walls).is_error
    assert git(repository, "config", "user.name") == "bob\n"


def test_a_linked_worktree_can_commit_and_its_repository_stays_protected(
    repository: Path, walls: Sandbox, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    reply = bash("echo two > file && git commit -qam two && git status --short", tmp_path / "linked", walls, **NAMED)
    assert not reply.is_error, reply.output
    assert git(repository, "log", "--format=%s", "linked").split() == ["two", "one"]
    assert bash("git config core.fsmonitor ./evil", tmp_path / "linked", walls).is_error
    assert bash(f"echo evil > {repository}/.git/hooks/x", tmp_path / "linked", walls).is_error
    bash(f"touch {repository}/evil", tmp_path / "linked", walls)
    assert not (repository / "evil").exists()


def test_a_pointer_that_the_repository_does_not_confirm_opens_nothing(
    repository: Path, walls: Sandbox, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"), "-b", "linked")
    others = repository / ".git/worktrees/linked"
    for pointer in (others, repository / ".git", repository, victim, Path("/"), tmp_path / "victim/worktrees/x"):
        attacker = tmp_path / "attacker"
        attacker.mkdir(exist_ok=True)
        (attacker / ".git").write_text(f"gitdir: {pointer}\n")
        target = pointer if pointer.is_dir() else victim
        assert bash(f"touch {target}/evil-mark", attacker, walls).is_error, pointer
        assert not (target / "evil-mark").exists()
    assert not bash(f"touch {victim}/evil-mark", attacker, OFF).is_error


@pytest.mark.parametrize(
    "content", [b"", b"gitdir: ", b"gitdir: a\0b", b"gitdir: x\ny", b"\xff" * 9000, b"gitdir: ../../.."]
)
def test_a_damaged_pointer_opens_nothing_and_harms_nothing(tmp_path: Path, walls: Sandbox, content: bytes) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / ".git").write_bytes(content)
    assert bash("echo fine", folder, walls).output == "fine\n"


@pytest.mark.parametrize("name", ["config", "hooks", "modules", "config.worktree"])
def test_a_link_among_gits_settings_uncovers_nothing(
    repository: Path, walls: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The workspace lies in hhd's own folder, as one that came from another device does."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hhd-test-") as place:
        data = Path(place) / "data"
        monkeypatch.setenv("HHD_DATA_HOME", str(data))
        work = data / "worktrees/one"
        shutil.copytree(repository, work)
        (data / "secrets").mkdir()
        (data / "secrets/key").write_text("KEY")
        shutil.rmtree(work / ".git/hooks")
        target = data / "secrets" if name in ("hooks", "modules") else data / "secrets/key"
        (work / ".git" / name).unlink(missing_ok=True)
        (work / ".git" / name).symlink_to(target)
        probe = f"cat .git/{name} .git/{name}/key {data}/secrets/key 2>/dev/null; touch .git/x 2>/dev/null; echo ran"
        reply = bash(probe, work, detect())
        assert reply.output == "ran\n" and not (work / ".git/x").exists()
        assert "KEY" in bash(f"cat .git/{name} .git/{name}/key", work, OFF).output


def test_a_git_folder_that_is_a_link_opens_nothing(repository: Path, walls: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / ".git").symlink_to(repository / ".git")
    assert bash("touch .git/evil", folder, walls).is_error
    assert bash("echo fine", folder, walls).output == "fine\n"
