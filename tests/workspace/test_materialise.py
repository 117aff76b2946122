"""Every state of a working folder arrives bit for bit, as a new folder and in a checkout that is there, or not."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.workspace.by_hand import BOX, Pieces, capture, everything, git, git_looks, looks, repository
from tests.workspace.table import STATES, made

from hhd.base.errors import RefusedError
from hhd.workspace import git as runner
from hhd.workspace import planning
from hhd.workspace.errors import NotOurs
from hhd.workspace.index_file import decode
from hhd.workspace.materialise import held, materialise
from hhd.workspace.pending import pending_folder
from hhd.workspace.written import Written
from hhd_protocol.workspace import Capture, History, LeftOut, Reason


def write(one: Capture, pieces: Pieces, folder: Path, **more: object) -> Written:
    """Materialise, and insist that nothing is left of the work."""
    try:
        with held(folder, BOX) as place:
            return materialise(one, pieces.get, folder, place, **more)  # type: ignore[arg-type]
    finally:
        assert not list(pending_folder().glob("*.sealed"))
        around = [*folder.parent.iterdir(), *(folder.iterdir() if folder.is_dir() else ())]
        around += (folder / ".git").iterdir() if (folder / ".git").is_dir() else ()
        assert not [path for path in around if "hhd-" in path.name and path.name.startswith(".")]
        assert not (folder / ".git/index.lock").exists()


@pytest.mark.parametrize("name", STATES)
def test_a_state_arrives_in_a_new_folder(tmp_path: Path, name: str) -> None:
    source, target, pieces = made(tmp_path / "source", name), tmp_path / "target", Pieces()
    before = everything(source)
    write(capture(source, pieces), pieces, target)
    assert looks(target) == looks(source)
    assert git_looks(target) == git_looks(source)
    git(target, "fsck", "--strict")
    assert everything(source) == before


@pytest.mark.parametrize("name", STATES)
def test_a_state_arrives_in_a_clean_checkout_and_goes_back(tmp_path: Path, name: str) -> None:
    """The checkout stands where the source did before; what it ignores stays."""
    pieces = Pieces()
    source, target = made(tmp_path / "source", name), repository(tmp_path / "target")
    (target / ".git/info").mkdir(exist_ok=True)
    (target / ".git/info/exclude").write_text("/kept/\n")
    (target / "kept").mkdir()
    (target / "kept/file").write_text("ignored\n")
    clean = everything(target)
    now, wanted = capture(target, pieces), capture(source, pieces, depth=None)
    if wanted.repository is not None and wanted.repository.sparse is not None:
        with pytest.raises(NotOurs):
            write(wanted, pieces, target, now=now)
        assert everything(target) == clean
        return
    write(wanted, pieces, target, now=now)
    shown = looks(target)
    assert shown.pop(b"kept") and shown.pop(b"kept/file")
    assert shown == looks(source)
    assert git_looks(target) == git_looks(source)
    git(target, "fsck", "--strict")
    write(now, pieces, target, now=capture(target, pieces), last=wanted)
    assert everything(target)[:2] == clean[:2]


def test_ten_times_there_and_back_leave_refs_stashes_log_and_status_as_they_were(tmp_path: Path) -> None:
    pieces = Pieces()
    laptop = repository(tmp_path / "laptop")
    (laptop / "a.txt").write_text("stashed\n")
    git(laptop, "stash")
    (laptop / "a.txt").write_text("dirty\n")
    (laptop / "dir/run").unlink()
    (laptop / "new").write_text("untracked\n")
    git(laptop, "add", "new")
    desktop = repository(tmp_path / "desktop")
    (desktop / "dir/b.txt").write_text("two\n")
    git(desktop, "branch", "own")
    before, there = everything(laptop), everything(desktop)
    reflog = git(laptop, "reflog"), git(desktop, "reflog")
    last_there = start = capture(desktop, pieces)
    for _ in range(10):
        going = capture(laptop, pieces)
        if last_there is start:
            git(desktop, "checkout", "-q", "--", ".")
        write(going, pieces, desktop, now=capture(desktop, pieces), last=last_there)
        assert looks(desktop) == looks(laptop)
        last_there = back = capture(desktop, pieces)
        write(back, pieces, laptop, now=capture(laptop, pieces), last=going)
    assert everything(laptop) == before
    assert everything(desktop)[2:] == there[2:]
    assert (git(laptop, "reflog"), git(desktop, "reflog")) == reflog


def test_commits_made_elsewhere_arrive_with_the_branch(tmp_path: Path) -> None:
    pieces = Pieces()
    laptop, desktop = repository(tmp_path / "laptop"), repository(tmp_path / "desktop")
    (desktop / "a.txt").write_text("two\n")
    git(desktop, "commit", "-qam", "two")
    (desktop / "a.txt").write_text("three\n")
    write(capture(desktop, pieces, depth=1), pieces, laptop, now=capture(laptop, pieces))
    assert everything(laptop) == everything(desktop)
    assert not (laptop / ".git/shallow").exists(), "a complete repository must not become a shallow one"


def test_a_branch_that_went_another_way_is_left_alone(tmp_path: Path) -> None:
    pieces = Pieces()
    laptop, desktop = repository(tmp_path / "laptop"), repository(tmp_path / "desktop")
    for at, text in ((laptop, "here\n"), (desktop, "there\n")):
        (at / "a.txt").write_text(text)
        git(at, "commit", "-qam", text)
    before = everything(laptop)
    with pytest.raises(NotOurs, match="another way"):
        write(capture(desktop, pieces), pieces, laptop, now=(now := capture(laptop, pieces)))
    assert everything(laptop) == before
    write(capture(desktop, pieces), pieces, laptop, now=now, last=now)
    assert looks(laptop) == looks(desktop), "what hhd itself left there may move on any way"


def test_a_commit_that_no_branch_keeps_is_not_left_for_another(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    git(target, "checkout", "-q", "--detach")
    git(target, "commit", "-q", "--allow-empty", "-m", "mine")
    before, wanted = everything(target), capture(source, pieces)
    with pytest.raises(NotOurs, match="no branch keeps"):
        write(wanted, pieces, target, now=capture(target, pieces))
    assert everything(target) == before
    git(target, "tag", "kept")
    write(wanted, pieces, target, now=capture(target, pieces))
    assert looks(target) == looks(source)


def test_a_folder_of_which_not_all_could_be_read_is_left_alone(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    before, wanted, now = everything(target), capture(source, pieces), capture(target, pieces)
    unread = (LeftOut(path=b"dir/b.txt", reason=one) for one in (Reason.UNREADABLE, Reason.CHANGING))
    for blind in (*(replace(now, left_out=(one,)) for one in unread), replace(now, left_out_more=1)):
        with pytest.raises(NotOurs, match="could be read"):
            write(wanted, pieces, target, now=blind, last=blind)
    assert everything(target) == before
    write(wanted, pieces, target, now=replace(now, left_out=(LeftOut(path=b"kept", reason=Reason.IGNORED),)))
    assert looks(target) == looks(source)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("update-index", "--assume-unchanged", "dir/b.txt"), "the index was changed"),
        (("rm", "-q", "--cached", "dir/b.txt"), "the index was changed"),
        (("checkout", "-q", "-b", "other"), "HEAD was moved"),
    ],
)
def test_what_git_changed_after_the_look_is_kept(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    wanted, now = capture(source, pieces), capture(target, pieces)
    git(target, *words)
    before = everything(target)
    with pytest.raises(NotOurs, match=said):
        write(wanted, pieces, target, now=now)
    assert everything(target) == before


def test_a_branch_whose_name_another_excludes_is_seen_before_anything_is_written(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    git(source, "branch", "-m", "topic/one")
    git(target, "branch", "topic")
    before, wanted = everything(target), capture(source, pieces)
    with pytest.raises(NotOurs, match="excludes"):
        write(wanted, pieces, target, now=capture(target, pieces))
    assert everything(target) == before
    git(target, "branch", "-D", "topic")
    write(wanted, pieces, target, now=capture(target, pieces))
    assert looks(target) == looks(source)


def test_a_repository_that_git_does_not_trust_is_left_alone_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    wanted, now = capture(source, pieces), capture(target, pieces)
    before = everything(target)
    monkeypatch.setitem(runner._ENVIRONMENT, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(NotOurs, match=r"git said: fatal: .*ownership"):
        write(wanted, pieces, target, now=now)
    monkeypatch.undo()
    assert everything(target) == before


def test_a_part_on_another_file_system_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mounted there is not ours, and nothing can be moved out of it in one step."""
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    before, now = everything(target), capture(target, pieces)
    (source / "dir/b.txt").write_text("also\n")
    wanted = capture(source, pieces)
    real = planning.os.fstat
    with monkeypatch.context() as elsewhere:
        inner = os.stat(target / "dir").st_ino

        def fstat(fd: int) -> os.stat_result:
            found = real(fd)
            if found.st_ino != inner:
                return found
            return os.stat_result((*found[:2], found.st_dev + 1, *found[3:10]))

        elsewhere.setattr(planning.os, "fstat", fstat)
        with pytest.raises(NotOurs, match="another file system"):
            write(wanted, pieces, target, now=now)
    assert everything(target) == before
    write(wanted, pieces, target, now=now)
    assert looks(target) == looks(source)


@pytest.mark.parametrize("change", ["modify", "stage", "untracked", "delete"])
def test_changes_of_the_person_are_never_written_over(tmp_path: Path, change: str) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    if change == "untracked":
        (target / "notes").write_text("mine")
    elif change == "delete":
        (target / "dir/b.txt").unlink()
    else:
        (target / "dir/b.txt").write_text("mine\n")
    if change == "stage":
        git(target, "add", "-A")
    before = everything(target)
    wanted, now = capture(source, pieces), capture(target, pieces)
    with pytest.raises(NotOurs, match="not committed"):
        write(wanted, pieces, target, now=now)
    assert everything(target) == before
    write(wanted, pieces, target, now=now, last=now)
    assert looks(target) == looks(source)


def test_a_file_saved_after_the_look_is_kept(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    now = capture(target, pieces)
    (target / "a.txt").write_text("mine, a moment later\n")
    before = everything(target)
    with pytest.raises(NotOurs, match="changed by something else"):
        write(capture(source, pieces), pieces, target, now=now)
    assert everything(target) == before


@pytest.mark.parametrize("ignored", ["new.txt", "new.txt/inner"])
def test_an_ignored_file_in_the_way_stops_everything(tmp_path: Path, ignored: str) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    (target / ".git/info").mkdir(exist_ok=True)
    (target / ".git/info/exclude").write_text("new.txt\n")
    (target / ignored).parent.mkdir(exist_ok=True)
    (target / ignored).write_text("mine\n")
    before = everything(target)
    with pytest.raises(NotOurs, match="in the way"):
        write(capture(source, pieces), pieces, target, now=capture(target, pieces))
    assert everything(target) == before


def test_git_at_work_is_not_disturbed(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    (target / ".git/index.lock").write_bytes(b"")
    with pytest.raises(NotOurs, match=r"index\.lock"), held(target, BOX) as place:
        materialise(capture(source, pieces), pieces.get, target, place, now=capture(target, pieces))
    assert (target / ".git/index.lock").read_bytes() == b""


def test_a_plain_folder_arrives_new_and_in_place(tmp_path: Path) -> None:
    pieces = Pieces()
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(repository(tmp_path / "r"), source, symlinks=True, ignore=lambda *_: [".git"])
    (source / "empty").mkdir()
    first = capture(source, pieces)
    write(first, pieces, target)
    assert looks(target) == looks(source)
    (source / "a.txt").write_text("two\n")
    shutil.rmtree(source / "dir")
    (source / "empty/not").write_text("any more")
    write(capture(source, pieces), pieces, target, now=first, last=first)
    assert looks(target) == looks(source)
    with pytest.raises(NotOurs):
        write(first, pieces, target, now=capture(source, pieces))


def test_a_worktree_of_a_repository_takes_a_state_like_any_checkout(tmp_path: Path) -> None:
    pieces = Pieces()
    source, main = made(tmp_path / "source", "staged_and_unstaged"), repository(tmp_path / "main")
    git(main, "checkout", "-q", "-b", "parked")
    git(main, "worktree", "add", "-q", "../linked", "main")
    target, before = tmp_path / "linked", everything(main)[0]
    write(capture(source, pieces), pieces, target, now=capture(target, pieces))
    assert looks(target).keys() - looks(source).keys() == {b".git"} or looks(target) == looks(source)
    assert git_looks(target) == git_looks(source)
    assert everything(main)[0] == before


def test_a_branch_that_another_worktree_stands_on_does_not_move_under_it(tmp_path: Path) -> None:
    pieces = Pieces()
    source, main = repository(tmp_path / "source"), repository(tmp_path / "main")
    (source / "a.txt").write_text("two\n")
    git(source, "commit", "-qam", "two")
    git(main, "worktree", "add", "-q", "-b", "side", "../linked")
    with pytest.raises(NotOurs, match="checked out"):
        write(capture(source, pieces), pieces, tmp_path / "linked", now=capture(tmp_path / "linked", pieces))


def test_what_git_saw_too_late_to_be_sure_is_looked_at_again(tmp_path: Path) -> None:
    """A file changed in the very tick in which git wrote its index: git looks again, and must go on doing so."""
    pieces = Pieces()
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    index = target / ".git/index"
    stamp = (target / "dir/b.txt").stat().st_mtime_ns
    os.utime(index, ns=(stamp, stamp))
    now = capture(target, pieces)
    write(capture(source, pieces), pieces, target, now=now)
    late = next(one for one in decode(index.read_bytes()) if one.path == b"dir/b.txt")
    assert late.seen[:24] == b"\0" * 24


def test_objects_of_a_local_repository_are_borrowed_for_a_state_that_names_them_only(tmp_path: Path) -> None:
    pieces = Pieces()
    source, local = made(tmp_path / "source", "dirty"), repository(tmp_path / "local")
    one = capture(source, pieces)
    assert one.repository is not None and one.repository.head is not None
    bare = replace(one, repository=replace(one.repository, history=History(assumed=(one.repository.head,))))
    with pytest.raises(RefusedError, match="rests on commit"):
        write(bare, pieces, tmp_path / "target")
    write(bare, pieces, tmp_path / "target", borrow=local / ".git")
    shutil.rmtree(local)
    git(tmp_path / "target", "fsck", "--strict", "--full")
    assert git_looks(tmp_path / "target") == git_looks(source)
    assert not (tmp_path / "target/.git/shallow").exists()


def test_a_shallow_history_is_borrowed_with_its_marks(tmp_path: Path) -> None:
    pieces, whole = Pieces(), repository(tmp_path / "whole")
    for number in range(3):
        (whole / "a.txt").write_text(f"{number}\n")
        git(whole, "commit", "-qam", str(number))
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{whole}", "local")
    local = tmp_path / "local"
    one = capture(local, pieces)
    assert one.repository is not None and one.repository.head is not None
    bare = replace(one, repository=replace(one.repository, history=History(assumed=(one.repository.head,))))
    done = write(bare, pieces, tmp_path / "target", borrow=local / ".git")
    assert "shallow" in done.notes[0]
    git(tmp_path / "target", "fsck", "--strict", "--full")
    assert len(git(tmp_path / "target", "log", "--format=%H").split()) == 1
