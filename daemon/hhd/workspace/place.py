"""Where a folder's repository is, found by looking at files: git is not run before it is known what it would read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.files import open_plain
from hhd.base.text import visible

_POINTER_BYTES_MAX = 8192
"""A `.git` file, or what it leads to, holds one path."""


_READ_BY_GIT = ("HEAD", "config", "config.worktree", "commondir", "packed-refs", "shallow", "index")
"""Files that git opens at once: a pipe in the place of one would have it wait for ever."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A working tree, and the folders that git keeps for it; they differ in a linked worktree."""

    top: Path
    git_dir: Path
    common: Path


def find(folder: Path) -> Place | None:
    """Return the repository whose working tree `folder` lies in, None if there is none.

    Raises RefusedError for a bare repository, the inside of one, and one whose pointer leads nowhere.
    """
    folder = folder.resolve()
    if _looks_like_git_dir(folder):
        raise RefusedError(
            f"{_shown(folder)} is a bare repository or a .git folder: it has no working tree to capture."
        )
    for top in (folder, *folder.parents):
        found = at(top)
        if found is not None:
            return found
    return None


def at(top: Path) -> Place | None:
    """Return the repository whose working tree begins at `top`, None if `top` holds no `.git`; raises RefusedError."""
    pointer = top / ".git"
    if pointer.is_dir():
        git_dir = pointer.resolve()
        if not _looks_like_git_dir(git_dir):
            return None  # As git does: an empty `.git` folder is nothing.
    elif pointer.is_file():
        path = _pointer(pointer, "gitdir: ")
        git_dir = (top / path).resolve() if path else pointer
        if not (git_dir / "HEAD").is_file():
            raise RefusedError(f"{_shown(pointer)} does not lead to a repository; nothing was captured.")
    else:
        return None
    _insist_on_files(git_dir)
    pointed = _pointer(git_dir / "commondir", "")
    common = (git_dir / pointed).resolve() if pointed else git_dir
    _insist_on_files(common)
    return Place(top=top, git_dir=git_dir, common=common)


def _insist_on_files(git_dir: Path) -> None:
    for path in (git_dir / name for name in _READ_BY_GIT):
        if path.exists() and not path.is_file():
            raise RefusedError(f"{_shown(path)} is no file, so git cannot read this repository.")


def _looks_like_git_dir(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _pointer(file: Path, prefix: str) -> str:
    try:
        with open_plain(file) as opened:
            text = opened.read(_POINTER_BYTES_MAX).decode("utf-8", "surrogateescape").rstrip("\r\n")
    except OSError:
        return ""
    return text.removeprefix(prefix) if text.startswith(prefix) and "\0" not in text else ""


def _shown(path: Path) -> str:
    return visible(str(path), one_line=True)
