"""What is prepared ahead is seen by nobody before its switch, and leaves nothing; what was done meanwhile is found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace import faults
from tests.workspace.by_hand import BOX, git, looks
from tests.workspace.looks import unseen
from tests.workspace.scenes import SCENES, Scene, edited, insist

from hhd.base.errors import UserError
from hhd.workspace.errors import HostileCapture, NotOurs, Unready
from hhd.workspace.materialise import Ahead, held, materialise, prepare, recover
from hhd.workspace.pending import pending_folder
from hhd.workspace.work import Work


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return of_kind(tmp_path, request.param)


def of_kind(tmp_path: Path, kind: str) -> Scene:
    (tmp_path / "scene").mkdir()
    made: Callable[[Path], Scene] = {**SCENES, "edited": edited}[kind]
    return made(tmp_path / "scene")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Made once: what is done to it is done to a copy."""
    return of_kind(tmp_path_factory.mktemp("checkout"), "checkout")


@pytest.fixture
def at(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work" / "target"


def prepared(scene: Scene, at: Path) -> Ahead:
    found = prepare(scene.wanted, scene.pieces.get, at, BOX, now=scene.now, last=scene.now)
    assert found is not None
    return found


def act(scene: Scene, at: Path) -> None:
    """All of it."""
    ahead = prepared(scene, at)
    ahead.appear(scene.pieces.get)
    ahead.drop()


def whole(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every byte, name and mode there and beside it, `.git` too, and when each file was written."""
    found: dict[str, tuple[object, ...]] = {}
    for one in sorted(folder.parent.rglob("*")):
        look = one.lstat()
        what: object = os.readlink(one) if one.is_symlink() else one.read_bytes() if one.is_file() else None
        found[str(one)] = (look.st_mode, what, look.st_mtime_ns if one.is_file() else 0, look.st_ino)
    return found


def test_what_is_prepared_changes_nothing_and_dropped_leaves_nothing(scene: Scene, at: Path) -> None:
    scene.fresh(at)
    before, seen, said = whole(at), looks(at) if at.exists() else {}, status(at)
    ahead = prepared(scene, at)
    assert len(list(pending_folder().glob("*.sealed"))) == 1 and whole(at) != before, "something lies beside"
    assert (looks(at) if at.exists() else {}) == seen and status(at) == said, "nobody sees it"
    ahead.drop()
    ahead.drop()
    assert whole(at) == before and not list(pending_folder().glob("*.sealed"))


def status(at: Path) -> bytes:
    return git(at, "--no-optional-locks", "status", "--porcelain", "--ignored") if (at / ".git").exists() else b""


def test_what_was_prepared_appears_whole(scene: Scene, at: Path) -> None:
    old = scene.old if scene.template.exists() else ()
    scene.fresh(at)
    act(scene, at)
    assert insist(scene, at, old)
    if (at / ".git").exists():
        git(at, "update-index", "-q", "--refresh", check=False)


def test_the_switch_runs_no_git_where_the_branch_stays(
    tmp_path: Path, at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = of_kind(tmp_path, "edited")
    ran: list[object] = []
    real = subprocess.Popen.__init__

    def counting(self: subprocess.Popen[bytes], words: object, *more: object, **named: object) -> None:
        ran.append(words)
        real(self, words, *more, **named)  # type: ignore[call-overload]

    scene.fresh(at)
    monkeypatch.setattr(subprocess.Popen, "__init__", counting)
    ahead = prepared(scene, at)
    assert ran, "preparing asks git"
    ran.clear()
    ahead.appear(scene.pieces.get)
    assert ran == []
    ahead.drop()
    monkeypatch.undo()
    assert insist(scene, at, scene.old)


def _of_size(at: Path) -> None:
    unseen(at / "a.txt", b"!" * len((at / "a.txt").read_bytes()))


EDITS: dict[str, Callable[[Path], object]] = {
    "a file that is to be replaced": lambda at: (at / "a.txt").write_text("mine\n"),
    "one of the same size with its time put back": _of_size,
    "a file that is to go": lambda at: (at / "dir/b.txt").write_text("mine\n"),
    "a file where a new one is to be": lambda at: ((at / "deep/er").mkdir(parents=True), (at / "deep/er/new").touch()),
    "a folder that is a link now": lambda at: ((at / "dir").rename(at / "other"), (at / "dir").symlink_to("other")),
}
REPOSITORY_EDITS: dict[str, Callable[[Path], object]] = {
    "a commit": lambda at: git(at, "commit", "-q", "--allow-empty", "-m", "mine"),
    "another branch": lambda at: git(at, "checkout", "-q", "-b", "mine"),
    "a commit that no branch has": lambda at: git(at, "checkout", "-q", "--detach"),
    "the branch that is to come": lambda at: git(at, "branch", "side"),
    "something staged": lambda at: ((at / "mine").touch(), git(at, "add", "mine")),
    "a merge under way": lambda at: (at / ".git/MERGE_HEAD").write_bytes(git(at, "rev-parse", "HEAD")),
    "a rebase under way": lambda at: (at / ".git/rebase-merge").mkdir(),
    "a sparse checkout": lambda at: git(at, "sparse-checkout", "set", "dir"),
    "a git at work": lambda at: (at / ".git/index.lock").touch(),
}


@pytest.mark.parametrize("edit", [*EDITS, *REPOSITORY_EDITS])
def test_what_somebody_did_after_it_was_prepared_is_found_and_left_alone(checkout: Scene, at: Path, edit: str) -> None:
    scene = checkout
    scene.fresh(at)
    ahead = prepared(scene, at)
    (EDITS | REPOSITORY_EDITS)[edit](at)
    aside = at.parent.parent / "aside"
    shutil.copytree(at, aside, symlinks=True, ignore=shutil.ignore_patterns(".hhd-*"))
    with pytest.raises(Unready):
        ahead.appear(scene.pieces.get)
    assert looks(at) == looks(aside)
    shutil.rmtree(aside)
    assert not list(at.rglob(".hhd-*")) and not list(pending_folder().glob("*.sealed"))
    assert (at / ".git/index.lock").exists() == (edit == "a git at work")


@pytest.mark.parametrize("edit", EDITS)
def test_so_it_is_in_a_folder_that_is_no_repository(tmp_path: Path, at: Path, edit: str) -> None:
    scene = of_kind(tmp_path, "plain")
    scene.fresh(at)
    ahead = prepared(scene, at)
    EDITS[edit](at)
    mine = looks(at)
    with pytest.raises(Unready):
        ahead.appear(scene.pieces.get)
    assert looks(at) == mine and os.listdir(at.parent) == [at.name]


def test_what_somebody_put_where_a_new_folder_is_to_be_is_left_as_it_is(tmp_path: Path, at: Path) -> None:
    scene = of_kind(tmp_path, "new")
    ahead = prepared(scene, at)
    at.mkdir()
    (at / "mine").touch()
    with pytest.raises(Unready):
        ahead.appear(scene.pieces.get)
    assert os.listdir(at) == ["mine"] and os.listdir(at.parent) == [at.name]


def test_what_else_was_done_in_the_folder_stays_and_stops_nothing(checkout: Scene, at: Path) -> None:
    scene = checkout
    scene.fresh(at)
    ahead = prepared(scene, at)
    (at / "mine").write_text("mine\n")
    ahead.appear(scene.pieces.get)
    ahead.drop()
    assert (at / "mine").read_text() == "mine\n"
    (at / "mine").unlink()
    assert insist(scene, at, scene.old)


def test_what_is_prepared_is_in_nobodys_way(checkout: Scene, at: Path) -> None:
    """Git works in the folder, and who writes into it through hhd does not wait."""
    scene = checkout
    scene.fresh(at)
    ahead = prepared(scene, at)
    assert prepare(scene.wanted, scene.pieces.get, at, BOX, now=scene.now, last=scene.now) is None
    assert recover(BOX) == [], "what a living process prepared is not a dead one's"
    with held(at, BOX) as place:
        materialise(scene.wanted, scene.pieces.get, at, place, now=scene.now, last=scene.now)
    with pytest.raises(Unready):
        ahead.appear(scene.pieces.get)
    assert insist(scene, at, scene.old)
    with pytest.raises(NotOurs):
        prepare(scene.wanted, scene.pieces.get, at, BOX, now=scene.wanted)


@pytest.mark.parametrize("kind", ["checkout", "new"])
def test_what_cannot_be_prepared_leaves_nothing(tmp_path: Path, at: Path, kind: str) -> None:
    scene = of_kind(tmp_path, kind)
    scene.fresh(at)
    before = whole(at)
    pack = scene.wanted.repository.history.packs[0].pieces[0]  # type: ignore[union-attr]
    get = {**scene.pieces.held, pack: bytes(len(scene.pieces.get(pack)))}.__getitem__
    with pytest.raises(HostileCapture):
        prepare(scene.wanted, get, at, BOX, now=scene.now, last=scene.now)
    assert whole(at) == before and not list(pending_folder().glob("*.sealed"))


@pytest.mark.parametrize("kind", ["edited", "new"])
def test_killed_between_the_two_it_is_as_it_was_after_the_next_start(tmp_path: Path, at: Path, kind: str) -> None:
    scene = of_kind(tmp_path, kind)
    scene.fresh(at)
    before = whole(at)

    def dies() -> None:
        prepared(scene, at)
        os.kill(os.getpid(), signal.SIGKILL)

    assert faults.killed(dies, -1)
    assert whole(at) != before, "it left something"
    assert len(recover(BOX)) == 1
    assert whole(at) == before and not list(pending_folder().glob("*.sealed"))


def test_killed_before_it_was_looked_at_again_it_is_as_it_was_too(tmp_path: Path, at: Path) -> None:
    """The record of the switch is there by then, and does not count."""
    scene = of_kind(tmp_path, "edited")
    scene.fresh(at)
    before = whole(at)

    def dies() -> None:
        Work.insist_on_as_it_was = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        act(scene, at)

    assert faults.killed(dies, -1)
    assert len(list(pending_folder().glob("*.sealed"))) == 2 and (at / ".git/index.lock").exists()
    recover(BOX)
    assert whole(at) == before and not list(pending_folder().glob("*.sealed"))


def test_what_stands_under_the_name_of_the_switch_and_is_not_ours_is_neither_used_nor_removed(
    tmp_path: Path, at: Path
) -> None:
    """The name can be read off that of what is prepared, by whoever may write beside it."""
    scene = of_kind(tmp_path, "edited")
    scene.fresh(at)
    before, theirs = whole(at), tmp_path / "theirs"
    (theirs / "new").mkdir(parents=True)
    for number in range(20):
        (theirs / "new" / str(number)).write_text("of somebody else\n")

    def dies() -> None:
        Work.insist_on_as_it_was = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        act(scene, at)

    assert faults.killed(dies, -1)
    (stage,) = (at / ".git").glob(".hhd-*.ahead")
    taken = stage.with_name(stage.name.removesuffix(".ahead"))
    taken.symlink_to(theirs)
    recover(BOX)
    assert len(list((theirs / "new").iterdir())) == 20
    taken.unlink()
    assert whole(at) == before and not list(pending_folder().glob("*.sealed"))


def test_a_name_that_is_taken_is_found_before_anything_is_switched(checkout: Scene, at: Path) -> None:
    checkout.fresh(at)
    before, ahead = whole(at), prepared(checkout, at)
    (stage,) = (at / ".git").glob(".hhd-*.ahead")
    taken = stage.with_name(stage.name.removesuffix(".ahead"))
    taken.mkdir()
    (taken / "theirs").write_text("of somebody else\n")
    with pytest.raises(Unready):
        ahead.appear(checkout.pieces.get)
    assert (taken / "theirs").read_text() == "of somebody else\n" and not stage.exists()
    shutil.rmtree(taken)
    now = {name: look for name, look in whole(at).items() if "/objects/" not in name}  # Those nothing names.
    assert now == {name: look for name, look in before.items() if "/objects/" not in name}


def _kill_everywhere(scene: Scene, at: Path, step: int) -> None:
    scene.fresh(at)
    old = scene.old if scene.template.exists() else ()
    total = faults.count(lambda: act(scene, at))
    ends = set()
    for number in (*range(step // 2, total - 3, step), total - 3):
        scene.fresh(at)
        if faults.killed(lambda: act(scene, at), number):
            assert [one for found in recover(BOX) for one in found.left] == []
        ends.add(insist(scene, at, old))
    assert ends == {False, True}


@pytest.mark.parametrize("kind", ["edited", "new"])
def test_killed_at_some_writes_it_is_the_old_or_the_new(tmp_path: Path, at: Path, kind: str) -> None:
    _kill_everywhere(of_kind(tmp_path, kind), at, 47)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["checkout", "new"])
def test_killed_at_every_ninth_write_it_is_the_old_or_the_new(tmp_path: Path, at: Path, kind: str) -> None:
    _kill_everywhere(of_kind(tmp_path, kind), at, 9)


def test_a_disk_that_fills_leaves_the_old_or_the_new(checkout: Scene, at: Path) -> None:
    checkout.fresh(at)
    total = faults.count(lambda: act(checkout, at)) // 2
    for number in range(7, total, 29):
        checkout.fresh(at)
        try:
            with faults.full_disk(number):
                act(checkout, at)
        except (UserError, Unready):
            said = True
        else:
            said = False
        recover(BOX)
        assert insist(checkout, at, checkout.old) or said
