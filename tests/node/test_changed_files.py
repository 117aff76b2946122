"""The files that heads and diff name come from captures where there are any: they have what commands changed, too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.node import lines
from tests.node.lines import DESKTOP, Made, made, service, turn
from tests.store.small import captured

from hhd.node import here
from hhd.node import store as door
from hhd.store.captures import workspace_of
from hhd.store.errors import DamagedStoreError
from hhd.store.store import Store
from hhd.workspace.capture import capture

Files = dict[bytes, bytes] | None
FILES = {b"a.py": b"a", b"b.py": b"b", b"c.py": b"c", b"gone.py": b"g"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


def _parted(store: Store, fork: Files, here_: Files, there: Files) -> Made:
    """A session whose two heads each ran a command and edited a file, with these captures."""
    found = made(store)
    fork, here_, there = (None if files is None else _folder(store, found, files) for files in (fork, here_, there))
    base = found.work([turn(1)], on=None, workspace=fork)
    theirs = found.takeover(base, prev=found.create, by=DESKTOP)
    found.work(
        [turn(2, "There.", path="called.py"), turn(3, command="make")],
        on=base,
        token=theirs,
        by=DESKTOP,
        workspace=there,
    )
    ours = found.takeover(base, prev=theirs)
    found.work([turn(2, path="called.py"), turn(3, command="make")], on=base, token=ours, workspace=here_)
    found.list(heads=2, token=3)
    return found


def _files(store: Store) -> list[tuple[tuple[str, ...] | None, str]]:
    heads = [(one.files, one.files_from) for one in service(store).heads("the parser").heads]
    found = service(store).diff("the parser")
    assert [(one.files, one.files_from) for one in (found.one, found.other)] == heads, "both verbs say the same"
    return heads


def _folder(store: Store, session: Made, files: dict[bytes, bytes]) -> bytes:
    return workspace_of(captured(store, session.id, files))


def test_what_a_command_changed_made_or_removed_is_named(store: Store) -> None:
    found = made(store)
    fork = _folder(store, found, FILES)
    base = found.work([turn(1)], on=None, workspace=fork)
    theirs = found.takeover(base, prev=found.create, by=DESKTOP)
    there = _folder(store, found, {**FILES, b"b.py": b"built"})
    found.work([turn(2, command="make")], on=base, token=theirs, by=DESKTOP, workspace=there)
    ours = found.takeover(base, prev=theirs)
    changed = {**{path: raw for path, raw in FILES.items() if path != b"gone.py"}, b"a.py": b"x", b"new\xff.py": b"n"}
    found.work([turn(2, path="called.py")], on=base, token=ours, workspace=_folder(store, found, changed))
    found.list(heads=2, token=3)
    assert _files(store) == [(("a.py", "gone.py", "new\\xff.py"), "captures"), (("b.py",), "captures")]


def test_the_same_capture_at_the_fork_and_the_head_says_that_nothing_changed(store: Store) -> None:
    _parted(store, FILES, FILES, None)
    assert _files(store) == [((), "captures"), (("called.py",), "calls")]


def test_where_captures_are_missing_or_gone_calls_are_told_of_instead(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _parted(store, FILES, {**FILES, b"a.py": b"x"}, None)
    assert _files(store) == [(("a.py",), "captures"), (("called.py",), "calls")]

    def damaged(*_: object) -> None:
        raise DamagedStoreError("It is damaged.")

    monkeypatch.setattr(store, "capture_reader", damaged)
    assert _files(store) == [(("called.py",), "calls"), (("called.py",), "calls")]


def test_a_session_with_one_head_is_compared_with_its_first_capture(store: Store) -> None:
    found = made(store)
    base = found.work([turn(1)], on=None, workspace=_folder(store, found, FILES))
    found.work([turn(2, command="make")], on=base, workspace=_folder(store, found, {**FILES, b"a.py": b"x"}))
    (head,) = service(store).heads("the parser").heads
    assert (head.files, head.files_from) == (("a.py",), "captures")


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def _captured(store: Store, session: Made, folder: Path) -> bytes:
    with store.transaction():
        writer = store.capture_writer(store.session(session.id).family, None)
        return workspace_of(writer.finish(capture(folder, None, writer.put)))


def test_in_a_repository_a_commit_of_what_was_there_changes_no_file(store: Store, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    _git(repo, "init", "-q")
    _git(repo, "config", "user.email", "a@example.org")
    _git(repo, "config", "user.name", "a")
    for name in ("kept", "edited", "staged", "removed", "tool"):
        (repo / name).write_text(name)
    _git(repo, "add", ".")
    _git(repo, "commit", "-qm", "one")
    (repo / "dirty").write_text("before the fork")
    found = made(store)
    here.note(store, found.id, here.Note(folder=repo))
    fork = _captured(store, found, repo)
    (repo / "edited").write_text("x")
    (repo / "staged").write_text("y")
    (repo / "removed").unlink()
    (repo / "tool").chmod(0o755)
    _git(repo, "add", "staged")
    without_commit = _captured(store, found, repo)
    _git(repo, "add", "-A")
    _git(repo, "commit", "-qm", "two")
    with_commit = _captured(store, found, repo)
    base = found.work([turn(1)], on=None, workspace=fork)
    theirs = found.takeover(base, prev=found.create, by=DESKTOP)
    found.work([turn(2)], on=base, token=theirs, by=DESKTOP, workspace=without_commit)
    ours = found.takeover(base, prev=theirs)
    found.work([turn(2)], on=base, token=ours, workspace=with_commit)
    found.list(heads=2, token=3)
    changed = ("edited", "removed", "staged", "tool")
    assert _files(store) == [(changed, "captures"), (changed, "captures")]
    here.note(store, found.id, here.Note(folder=tmp_path))
    assert _files(store) == [((), "calls"), (changed, "captures")], "the commits are not to be found"
