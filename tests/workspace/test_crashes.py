"""Killed at any write, a folder is the old or the new after the next start, and nothing is left over."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.workspace import faults
from tests.workspace.by_hand import BOX, everything, looks
from tests.workspace.scenes import SCENES, Scene, insist, without_history

from hhd.base import beneath
from hhd.base.errors import UserError
from hhd.workspace import switcher
from hhd.workspace.errors import LeftBetween
from hhd.workspace.materialise import held, recover
from hhd.workspace.pending import Pending, pending_folder
from hhd.workspace.switch import PUT
from hhd.workspace.switcher import Switcher


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    place = tmp_path / "scene"
    place.mkdir()
    made: Callable[[Path], Scene] = SCENES[request.param]
    return made(place)


SHORTER_MAX = 12
"""Writes by which one run of an act may be shorter than another: an index that is racily clean is written once more."""


def _sample(total: int, step: int) -> Iterator[int]:
    yield from range(step // 2, total - 6, step)
    yield from range(total - 6, total, 1 if step <= 2 else 3)


def _kill_everywhere(scene: Scene, tmp_path: Path, step: int) -> None:
    at = tmp_path / "work" / "target"
    at.parent.mkdir()
    old = everything(scene.fresh(at))
    total = faults.count(lambda: scene.act(at))
    assert insist(scene, at, old), "the act itself does nothing"
    ends = set()
    for number in _sample(total, step):
        scene.fresh(at)
        if not faults.killed(lambda: scene.act(at), number):  # git and the clock make a run a few writes shorter.
            assert number >= total - SHORTER_MAX and insist(scene, at, old)
            continue
        assert [one for found in recover(BOX) for one in found.left] == []
        ends.add(insist(scene, at, old))
    assert ends == {False, True}


def test_killed_at_some_writes_it_is_the_old_or_the_new(scene: Scene, tmp_path: Path) -> None:
    _kill_everywhere(scene, tmp_path, 23)


@pytest.mark.long
def test_killed_at_every_write_it_is_the_old_or_the_new(scene: Scene, tmp_path: Path) -> None:
    """After each write is before the next one: every other place is every state of the disk."""
    _kill_everywhere(scene, tmp_path, 2)


def _kill_the_recovery(scene: Scene, tmp_path: Path, step: int, inner: int) -> None:
    at = tmp_path / "work" / "target"
    at.parent.mkdir()
    old = everything(scene.fresh(at))
    total = faults.count(lambda: scene.act(at))
    for number in _sample(total, step):
        scene.fresh(at)
        faults.killed(lambda: scene.act(at), number)
        for again in range(inner // 2, 10_000, inner):
            if not faults.killed(lambda: recover(BOX), again):
                break
        recover(BOX)
        insist(scene, at, old)


def test_killed_while_it_recovers_it_is_still_one_of_them(scene: Scene, tmp_path: Path) -> None:
    _kill_the_recovery(scene, tmp_path, 41, 9)


@pytest.mark.long
def test_killed_again_and_again_while_it_recovers(scene: Scene, tmp_path: Path) -> None:
    _kill_the_recovery(scene, tmp_path, 17, 7)


def _fill_the_disk(scene: Scene, tmp_path: Path, step: int) -> None:
    at = tmp_path / "work" / "target"
    at.parent.mkdir()
    old = everything(scene.fresh(at))
    total = faults.count(lambda: scene.act(at)) // 2
    for number in _sample(total, step):
        scene.fresh(at)
        try:
            with faults.full_disk(number):
                scene.act(at)
        except UserError as error:
            said = error.exit
        else:
            said = None
        recover(BOX)
        done = insist(scene, at, old)
        assert done == (said is None) or said == 5, "what it says is not what it did"


def test_a_disk_that_fills_at_some_writes_leaves_the_old(scene: Scene, tmp_path: Path) -> None:
    _fill_the_disk(scene, tmp_path, 11)


@pytest.mark.long
def test_a_disk_that_fills_at_every_third_write_leaves_the_old(scene: Scene, tmp_path: Path) -> None:
    _fill_the_disk(scene, tmp_path, 3)


def test_without_recovery_a_kill_leaves_a_mix(tmp_path: Path) -> None:
    """The control: the harness does kill in the middle of what is visible."""
    place = tmp_path / "scene"
    place.mkdir()
    scene, at = SCENES["checkout"](place), tmp_path / "work" / "target"
    at.parent.mkdir()
    old = everything(scene.fresh(at))
    total = faults.count(lambda: scene.act(at))
    mixes = 0
    for number in range(total * 2 // 3, total, 9):
        scene.fresh(at)
        faults.killed(lambda: scene.act(at), number)
        found = everything(at)
        mixes += found != old and without_history(found) != without_history(scene.new)
        recover(BOX)
    assert mixes


def test_where_things_cannot_change_places_it_is_done_in_two_steps(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> None:
        raise OSError(22, "cannot")

    monkeypatch.setattr(beneath, "_renamer", lambda: cannot)
    at = tmp_path / "work" / "target"
    at.parent.mkdir()
    old = everything(scene.fresh(at))
    scene.act(at)
    assert insist(scene, at, old)


def _half_way(scene: Scene, at: Path) -> None:
    """`at` changed by a process that died when the first new file was to be put."""
    at.parent.mkdir()
    scene.fresh(at)

    def act() -> None:
        steps = list(switcher._STEPS)
        steps[PUT] = (lambda *_: os.kill(os.getpid(), signal.SIGKILL), steps[PUT][1])
        switcher._STEPS = tuple(steps)  # type: ignore[assignment]
        scene.act(at)

    assert faults.killed(act, -1)


def test_what_a_person_saved_after_a_crash_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "scene"
    place.mkdir()
    scene, at = SCENES["checkout"](place), tmp_path / "work" / "target"
    _half_way(scene, at)
    assert (at / "a.txt").read_text() == "a\n" and not (at / "gone.txt").is_file(), "half-way"
    (at / "a.txt").write_text("mine\n")
    (found,) = recover(BOX)
    assert (at / "a.txt").read_text() == "mine\n"
    assert "a.txt" in found.left[0] and found.stage is not None
    assert b"staged\n" in {one.read_bytes() for one in (found.stage / "new").iterdir() if one.is_file()}
    assert not (at / ".git/index.lock").exists()


@pytest.mark.parametrize("kind", ["checkout", "plain"])
def test_a_disk_that_is_away_at_a_start_is_waited_for(tmp_path: Path, kind: str) -> None:
    (tmp_path / "scene").mkdir()
    scene, at = SCENES[kind](tmp_path / "scene"), tmp_path / "disk" / "target"
    _half_way(scene, at)
    at.parent.rename(tmp_path / "away")
    assert recover(BOX) == []
    (tmp_path / "away").rename(at.parent)
    (found,) = recover(BOX)
    assert found.done and not found.left
    assert insist(scene, at, ())


def test_a_folder_that_was_removed_after_a_crash_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "scene").mkdir()
    scene, at = SCENES["plain"](tmp_path / "scene"), tmp_path / "work" / "target"
    _half_way(scene, at)
    shutil.rmtree(at)
    (found,) = recover(BOX)
    assert "not there any more" in found.left[0] and found.stage is not None and found.stage.is_dir()
    assert recover(BOX) == []


def test_what_a_person_saves_while_it_is_done_has_it_taken_back(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scene.now is None:
        return
    at = tmp_path / "work" / "target"
    at.parent.mkdir()
    scene.fresh(at)
    forward = Switcher.forward

    def meddling(self: Switcher, **more: bool) -> None:
        (at / "a.txt").write_text("mine\n")
        forward(self, **more)

    monkeypatch.setattr(Switcher, "forward", meddling)
    before = {path: look for path, look in looks(at).items() if path != b"a.txt"}
    with pytest.raises(UserError) as caught:
        scene.act(at)
    assert caught.value.exit == 3
    after = looks(at)
    assert after.pop(b"a.txt")[-1] == b"mine\n"  # type: ignore[index]
    assert after == before
    assert not (at / ".git/index.lock").exists()
    assert not list(pending_folder().glob("*.sealed"))


def test_what_a_person_saves_while_it_is_taken_back_is_kept_and_what_it_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "scene"
    place.mkdir()
    scene, at = SCENES["checkout"](place), tmp_path / "work" / "target"
    at.parent.mkdir()
    scene.fresh(at)
    before = {path: look for path, look in looks(at).items() if path != b"a.txt"}
    forward = Switcher.forward

    def failing(self: Switcher, **more: bool) -> None:
        forward(self, **more)
        (at / "a.txt").unlink()
        (at / "a.txt").write_text("mine\n")
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Switcher, "forward", failing)
    with pytest.raises(LeftBetween, match=r"a\.txt") as caught:
        scene.act(at)
    monkeypatch.undo()
    after = looks(at)
    assert after.pop(b"a.txt")[-1] == b"mine\n"  # type: ignore[index]
    assert after == before
    (stage,) = at.glob(".git/.hhd-*")
    assert str(stage) in str(caught.value)
    assert b"a\n" in {one.read_bytes() for one in (stage / "new").iterdir() if one.is_file()}
    assert recover(BOX) == [] and not (at / ".git/index.lock").exists()


def test_a_git_that_outlives_its_killed_parent_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = tmp_path / ".target.hhd-1"
    with held(tmp_path / "target", BOX) as place:
        place.save(Pending(folder=tmp_path / "target", stage=stage))
    stage.mkdir()
    writes = iter([True, True, False])
    real = shutil.rmtree

    def removed(path: Path, **more: bool) -> None:
        real(path, **more)
        if next(writes):
            (path / "objects").mkdir(parents=True)

    monkeypatch.setattr(shutil, "rmtree", removed)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert len(recover(BOX)) == 1 and not stage.exists() and recover(BOX) == []
    stage.mkdir()
    with held(tmp_path / "target", BOX) as place:
        place.save(Pending(folder=tmp_path / "target", stage=stage))
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    assert len(recover(BOX)) == 1 and stage.exists(), "what cannot go yet"
    monkeypatch.setattr(shutil, "rmtree", real)
    assert len(recover(BOX)) == 1 and not stage.exists() and recover(BOX) == [], "is not forgotten"
