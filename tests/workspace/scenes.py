"""Folders that are to become something else; each is the old or the new, and nothing is left over."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.workspace.by_hand import BOX, Pieces, capture, everything, git, repository

from hhd.workspace.materialise import held, materialise
from hhd.workspace.pending import pending_folder
from hhd_protocol.workspace import Capture


@dataclass
class Scene:
    """A folder `template`, what it is to become, and how it is done to a copy of it."""

    template: Path
    wanted: Capture
    now: Capture | None
    pieces: Pieces
    new: tuple[object, ...]

    @property
    def old(self) -> tuple[object, ...]:
        return everything(self.template)

    def fresh(self, at: Path) -> Path:
        for left in (at, *at.parent.glob(f".{at.name}.hhd-*"), *at.parent.glob(".hhd-*")):
            shutil.rmtree(left, ignore_errors=True)
        if self.template.exists():
            shutil.copytree(self.template, at, symlinks=True)
            if (at / ".git").exists():
                git(at, "update-index", "-q", "--refresh", check=False)
        return at

    def act(self, at: Path) -> None:
        with held(at, BOX) as place:
            materialise(self.wanted, self.pieces.get, at, place, now=self.now, last=self.now)


def _busy(at: Path) -> Path:
    """A change of every kind: content, mode, link, removal, rename, folder to file, commit, index, operation."""
    (at / "a.txt").write_text("two\n")
    git(at, "commit", "-qam", "two")
    git(at, "checkout", "-q", "-b", "side")
    (at / "a.txt").write_text("staged\n")
    git(at, "add", "a.txt")
    (at / "dir/run").chmod(0o644)
    (at / "dir/b.txt").unlink()
    (at / "link").unlink()
    (at / "link").symlink_to("dir")
    (at / "gone.txt").unlink()
    (at / "gone.txt").mkdir()
    (at / "gone.txt/inner").write_text("untracked\n")
    (at / "deep/er").mkdir(parents=True)
    (at / "deep/er/new").write_text("untracked\n")
    return at


def _new_repository(place: Path) -> Scene:
    pieces = Pieces()
    source = _busy(repository(place / "source"))
    return Scene(place / "none", capture(source, pieces), None, pieces, everything(source))


def _checkout(place: Path) -> Scene:
    pieces = Pieces()
    source, template = _busy(repository(place / "source")), repository(place / "template")
    git(template, "stash", "list")
    return Scene(template, capture(source, pieces, depth=None), capture(template, pieces), pieces, everything(source))


def _back(place: Path) -> Scene:
    """The other way: what was untracked goes, what was removed comes back."""
    pieces = Pieces()
    template, source = _busy(repository(place / "template")), repository(place / "source")
    (source / "a.txt").write_text("two\n")
    git(source, "commit", "-qam", "two")
    now = capture(template, pieces)
    return Scene(template, capture(source, pieces), now, pieces, everything(source))


def _plain(place: Path) -> Scene:
    pieces = Pieces()
    source, template = _busy(repository(place / "source")), repository(place / "template")
    for at in (source, template):
        shutil.rmtree(at / ".git")
    return Scene(template, capture(source, pieces), capture(template, pieces), pieces, everything(source))


def edited(place: Path) -> Scene:
    """Files change, and the branch stays where it is."""
    pieces = Pieces()
    source, template = repository(place / "source"), repository(place / "template")
    (source / "a.txt").write_text("two\n")
    (source / "dir/b.txt").unlink()
    (source / "new").write_text("untracked\n")
    return Scene(template, capture(source, pieces), capture(template, pieces), pieces, everything(source))


SCENES = {"new": _new_repository, "checkout": _checkout, "back": _back, "plain": _plain}


def without_history(state: tuple[object, ...]) -> tuple[object, ...]:
    """What arrives: not the refs, stashes and log of where it came from."""
    return state[:2]


def insist(scene: Scene, at: Path, old: tuple[object, ...]) -> bool:
    """The folder is the old (False) or the new (True), and clean of us."""
    found = everything(at)
    assert not list(pending_folder().glob("*.sealed"))
    assert not [left for left in at.parent.rglob("*") if "hhd-" in left.name], "something was left over"
    assert not list(at.glob(".git/index.lock"))
    assert not list(at.glob(".git/refs/**/*.lock"))
    if (at / ".git").exists():
        git(at, "fsck", "--strict")
    if found == old:
        return False
    assert without_history(found) == without_history(scene.new), "neither the old nor the new"
    return True
