"""What a sandboxed command may do to the workspace's git repository: everything but change what git runs.

A hook, or a setting such as core.fsmonitor, is a program that git runs as the person, outside of any sandbox, the next
time they type `git status`. So hooks, settings and those of submodules are read-only, and `.git` is a mount of its own,
which cannot be moved away and made anew. Committing, branching and fetching go on as usual.

In a linked worktree the repository lies outside the folder. It is made writable only if it names this worktree itself,
as git insists too: a `.git` file alone, which anybody may have written, opens nothing.
"""

from __future__ import annotations

from pathlib import Path

_RUN_BY_GIT = ("config", "config.worktree", "modules")
"""Besides hooks. Where one of them is a link, all of the repository is read-only: mounting over a link would mount
whatever it leads to, a hidden key perhaps."""

_BYTES_MAX = 8192
"""A pointer file holds one path."""


def walls(workspace: Path) -> list[str]:
    """Words for bubblewrap that let git work in `workspace` and keep what git runs as it is."""
    words: list[str] = []
    for folder in _repository(workspace):
        if any((folder / name).is_symlink() for name in (*_RUN_BY_GIT, "hooks")):
            words += ["--ro-bind", str(folder), str(folder)]
            continue
        words += ["--bind", str(folder), str(folder)]
        for name in _RUN_BY_GIT:
            if (folder / name).exists():
                words += ["--ro-bind", str(folder / name), str(folder / name)]
        hooks = str(folder / "hooks")
        exists = (folder / "hooks").is_dir()
        words += ["--ro-bind", hooks, hooks] if exists else ["--tmpfs", hooks, "--remount-ro", hooks]
    return words


def opened(workspace: Path) -> list[str]:
    """Words that let git, and whatever else, write to the repository of `workspace`."""
    return [word for folder in _repository(workspace) for word in ("--bind", str(folder), str(folder))]


def _repository(workspace: Path) -> list[Path]:
    """The folder that holds the repository whose worktree `workspace` is; none if there is none, or it is unproven."""
    pointer = workspace / ".git"
    if pointer.is_dir() and not pointer.is_symlink():
        return [pointer]
    own = _path_in(pointer, workspace, "gitdir: ")
    if own is None or own.parent.name != "worktrees":
        return []
    back, common = _path_in(own / "gitdir", own), _path_in(own / "commondir", own)
    if back != pointer or common is None or common != own.parent.parent:
        return []
    return [common]


def _path_in(file: Path, base: Path, prefix: str = "") -> Path | None:
    """The path that the small text `file` holds after `prefix`, relative to `base`; None if it holds none."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        with open(file, "rb") as opened:
            text = opened.read(_BYTES_MAX).decode("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return None
    if not text.startswith(prefix) or "\0" in text or "\n" in text:
        return None
    return (base / text.removeprefix(prefix)).resolve()
