"""Where HEAD and a branch of a repository go, and that no commit of the person's is left without a name by it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hhd.workspace.errors import Meddled, NotOurs
from hhd.workspace.git import Git
from hhd.workspace.ref_move import RefMove, head_value, ref_value
from hhd_protocol.workspace import Repository


@dataclass(frozen=True, kw_only=True)
class Moves:
    """Branches that move, and what HEAD stands on before and after."""

    refs: tuple[RefMove, ...]
    head_old: str | None
    head_new: str | None


def moves(git: Git, folder: Path, *, now: Repository, last: Repository | None, wanted: Repository) -> Moves:
    """Find how the repository of `folder`, as `now` says it is, comes to stand where `wanted` does.

    `git` sees the objects that came. A branch moves forward, or from where hhd saw it `last`; raises NotOurs for any
    other way, Meddled if HEAD is not where `now` says.
    """
    here = _head_of(now)
    if head_value(git) != here or ref_value(git, "HEAD") != (None if now.head is None else now.head.hex()):
        raise Meddled("HEAD was moved by something else meanwhile.")
    if now.branch is None and now.head not in (None, wanted.head) and not _kept(git, now.head, last):
        raise NotOurs(f"{folder} is left alone: it stands on a commit that no branch keeps.")
    if wanted.branch is None:
        return Moves(refs=(), head_old=here, head_new=_head_of(wanted))
    ref = os.fsdecode(wanted.branch)
    old, new = ref_value(git, ref), None if wanted.head is None else wanted.head.hex()
    if old == new:
        return Moves(refs=(), head_old=here, head_new=ref)
    if old is not None and not _forward(git, ref, old, new, last):
        raise NotOurs(f"{folder} is left alone: its branch {ref.removeprefix('refs/heads/')} went another way.")
    _insist_on_own(git, folder, ref)
    return Moves(refs=(RefMove(ref=ref, old=old, new=new),), head_old=here, head_new=ref)


def _head_of(repository: Repository) -> str | None:
    if repository.branch is not None:
        return os.fsdecode(repository.branch)
    return None if repository.head is None else repository.head.hex()


def _kept(git: Git, commit: bytes | None, last: Repository | None) -> bool:
    if commit is None or (last is not None and last.head == commit):
        return True
    return bool(git.line("for-each-ref", "--count=1", "--contains", commit.hex(), "refs/"))


def _forward(git: Git, ref: str, old: str, new: str | None, last: Repository | None) -> bool:
    if last is not None and last.head == bytes.fromhex(old) and last.branch == os.fsencode(ref):
        return True
    return new is not None and git.line("merge-base", "--is-ancestor", old, new) is not None


def _insist_on_own(git: Git, folder: Path, ref: str) -> None:
    """A branch that another worktree stands on would change under it; one of a name that excludes it cannot be."""
    place = None
    for line in git.run("worktree", "list", "--porcelain", "-z").split(b"\0"):
        if line.startswith(b"worktree "):
            place = Path(os.fsdecode(line[9:]))
        if line == b"branch " + os.fsencode(ref) and place is not None and place.resolve() != folder.resolve():
            raise NotOurs(f"{folder} is left alone: its branch is checked out in {place}.")
    short = ref.removeprefix("refs/heads/").split("/")
    above = {f"refs/heads/{'/'.join(short[:n])}" for n in range(1, len(short))}
    names = set(os.fsdecode(git.run("for-each-ref", "--format=%(refname)", "refs/heads/")).splitlines())
    if names & above or any(name.startswith(f"{ref}/") for name in names):
        raise NotOurs(f"{folder} is left alone: a branch there has a name that excludes {ref}.")
