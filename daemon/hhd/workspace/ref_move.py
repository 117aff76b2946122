"""A branch that moves, or HEAD, and only from where it is known to stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.workspace.errors import Meddled
from hhd.workspace.git import Git


@dataclass(frozen=True, kw_only=True)
class RefMove:
    """A branch that moves from `old` to `new`; None: it is not there. Object ids in hex."""

    ref: str
    old: str | None
    new: str | None

    @property
    def back(self) -> RefMove:
        """The move that takes this one back."""
        return RefMove(ref=self.ref, old=self.new, new=self.old)


def move_refs(git: Git, moves: Iterable[RefMove], *, reason: str) -> None:
    """Make each move that was not made yet; `reason` is for git's log. Raises Meddled, GitFailed."""
    for move in moves:
        now = ref_value(git, move.ref)
        if now == move.new:
            continue
        if now != move.old:
            raise Meddled(f"The branch {move.ref} was moved by something else meanwhile.")
        if move.new is None:
            words = ["-d", move.ref, move.old or ""]
        else:
            words = [move.ref, move.new, move.old or "0" * len(move.new)]
        git.run("update-ref", "-m", reason, *words)


def move_head(git: Git, old: str | None, new: str | None, *, reason: str) -> None:
    """Move HEAD, unless that is done or `new` is None; both are as `head_value` returns. Raises Meddled, GitFailed."""
    if new is None or old == new:
        return
    now = head_value(git)
    if now == new:
        return
    if now != old:
        raise Meddled("HEAD was moved by something else meanwhile.")
    if new.startswith("refs/"):
        git.run("symbolic-ref", "-m", reason, "HEAD", new)
    else:
        git.run("update-ref", "--no-deref", "-m", reason, "HEAD", new)


def ref_value(git: Git, ref: str) -> str | None:
    """The object that `ref` names, in hex; None if it is not there."""
    return git.line("rev-parse", "--verify", "--quiet", "--end-of-options", ref)


def head_value(git: Git) -> str | None:
    """The full name of the branch that HEAD stands on, or a commit in hex; None for neither."""
    return git.line("symbolic-ref", "--quiet", "HEAD") or ref_value(git, "HEAD")
