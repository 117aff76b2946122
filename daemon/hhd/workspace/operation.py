"""Operations of git's in progress: which of them travel, and what is said of the others.

A merge, one cherry-pick and one revert are a few commits and a message. A rebase, a patch series, a sequence of picks
and a bisection are lists of steps, which may hold commands that git would run: those do not travel.
"""

from __future__ import annotations

from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.workspace.place import Place
from hhd.workspace.view import View
from hhd_protocol.limits import WORKSPACE_TEXT_BYTES_MAX
from hhd_protocol.workspace import Operation, OperationKind

_STUCK = (
    ("rebase-merge", "A rebase", "git rebase --continue", "git rebase --abort"),
    ("rebase-apply/applying", "Applying patches (git am)", "git am --continue", "git am --abort"),
    ("rebase-apply", "A rebase", "git rebase --continue", "git rebase --abort"),
    ("sequencer", "A sequence of cherry-picks or reverts", "git cherry-pick --continue", "git cherry-pick --abort"),
    ("BISECT_LOG", "A bisection", "git bisect good or bad", "git bisect reset"),
)


def insist_on_none_stuck(place: Place) -> None:
    """Raise RefusedError, with what to do, where an operation is in progress that cannot travel."""
    for name, what, go_on, give_up in _STUCK:
        if (place.git_dir / name).exists():
            raise RefusedError(
                f"{what} is in progress in {visible(str(place.top), one_line=True)}, and its steps do not travel: "
                f"finish it ({go_on}) or give it up ({give_up}), then capture again. Nothing was captured."
            )


def operation(view: View) -> Operation | None:
    """Return the operation in progress, None if there is none; raises RefusedError for one that cannot travel."""
    insist_on_none_stuck(view.place)
    message = view.copied("MERGE_MSG")[: WORKSPACE_TEXT_BYTES_MAX * 64]
    merging = _commits(view, "MERGE_HEAD")
    if merging:
        no_ff = view.copied("MERGE_MODE").strip() == b"no-ff"
        return Operation(kind=OperationKind.MERGE, heads=merging[:64], message=message, no_ff=no_ff)
    for name, kind in (("CHERRY_PICK_HEAD", OperationKind.CHERRY_PICK), ("REVERT_HEAD", OperationKind.REVERT)):
        if heads := _commits(view, name):
            return Operation(kind=kind, heads=heads[:1], message=message)
    squashed = view.copied("SQUASH_MSG")[: WORKSPACE_TEXT_BYTES_MAX * 64]
    if squashed:
        return Operation(kind=OperationKind.SQUASH, heads=(), message=squashed)
    return None


def _commits(view: View, name: str) -> tuple[bytes, ...]:
    try:
        return tuple(bytes.fromhex(line.decode("ascii")) for line in view.copied(name).split())
    except ValueError as error:
        raise view.refused(ValueError(f"{name} does not hold commits")) from error
