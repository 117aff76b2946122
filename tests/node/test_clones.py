"""A session in a clone is whole on a device that has no such repository, and has its history on one that does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says
from tests.node.driven import GLOB
from tests.node.two import Device, brought, devices
from tests.workspace.lab import git, repository

from hhd.node import here
from hhd.node.ended import End
from hhd.node.workspaces import Workspaces
from hhd_protocol.ids import SessionId

pytestmark = needs_agent


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[Device]]:
    with devices(
        tmp_path, [GLOB, says(call("bash", command="make"))], "laptop", "desktop", rules={"allow": []}
    ) as made:
        yield made


@pytest.fixture
def session(both: list[Device], tmp_path: Path) -> SessionId:
    """A session of the laptop in a clone of two commits, with one of its own, and a change."""
    laptop, desktop = both
    origin = repository(tmp_path / "origin")
    git(origin, "commit", "-q", "--allow-empty", "-m", "second")
    laptop.repo.rmdir()
    git(tmp_path, "clone", "-q", str(origin), str(laptop.repo))
    (laptop.repo / "mine").write_text("committed\n")
    git(laptop.repo, "add", "-A")
    git(laptop.repo, "commit", "-qm", "mine")
    (laptop.repo / "mine").write_text("changed\n")
    made = laptop.create()
    assert laptop.go_here(made).end is End.WAITING
    brought(laptop, desktop, made)
    return made


def taken_over(desktop: Device, session: SessionId) -> tuple[Path, tuple[str, ...]]:
    done = desktop.control.take_over(desktop.control.takeable(session.hex()), "the laptop is in the ocean")
    assert not done.instead
    return Path(done.folder), done.notes


def commits(folder: Path) -> list[bytes]:
    return git(folder, "log", "--format=%s").split()


def test_where_no_such_repository_is_known_all_files_are_there_and_it_says_where_history_ends(
    both: list[Device], session: SessionId
) -> None:
    laptop, desktop = both
    folder, notes = taken_over(desktop, session)
    assert git(folder, "status", "--porcelain") == git(laptop.repo, "status", "--porcelain") == b" M mine\n"
    assert sorted(one.name for one in folder.iterdir()) == sorted(one.name for one in laptop.repo.iterdir())
    assert commits(folder) == [b"mine", b"second"] and "shallow" in " ".join(notes)


def test_where_it_is_known_its_history_is_there_too(both: list[Device], session: SessionId, tmp_path: Path) -> None:
    desktop = both[1]
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), "known")
    Workspaces(store=desktop.store, me=desktop.me).capture(tmp_path / "known")
    folder, notes = taken_over(desktop, session)
    assert commits(folder)[:2] == [b"mine", b"second"] and len(commits(folder)) == 3 and not notes
    git(folder, "fsck", "--full")


def test_in_a_clone_that_its_person_mapped_it_goes_on_in_place(
    both: list[Device], session: SessionId, tmp_path: Path
) -> None:
    desktop = both[1]
    git(tmp_path, "clone", "-q", str(tmp_path / "origin"), "mapped")
    here.note(desktop.store, session, here.Note(place=None, folder=tmp_path / "mapped"))
    folder, _ = taken_over(desktop, session)
    assert folder == tmp_path / "mapped" and (folder / "mine").read_text() == "changed\n"
    assert len(commits(folder)) == 3 and not (folder / ".git" / "shallow").exists()
