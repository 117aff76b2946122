"""A capture made to appear in a folder: in it, as a new one, or not at all; and what a crash left, finished.

    with held(folder, box) as place: materialise(capture, get, folder, place, now=..., last=...)
    recover(box)                                # at each start

`box` seals the record of what was begun. `get` gives the pieces of contents, verified. `now` is a capture of the folder
made just before (None: nothing is there), `last` the capture that hhd knows it held. Who calls decides what becomes of
a refusal (`NotOurs`): another folder, or a sentence to the person.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.workspace.ahead import Ahead
from hhd.workspace.in_place import in_place
from hhd.workspace.index_lock import release_lock
from hhd.workspace.new import into_new
from hhd.workspace.objects import Get
from hhd.workspace.pending import Pending, Place, held, held_ahead, left_behind
from hhd.workspace.pending_plain import seal_plain
from hhd.workspace.recovered import Recovered
from hhd.workspace.switcher import Switcher
from hhd.workspace.written import Written
from hhd_protocol.workspace import Capture

REMOVALS_MAX, REMOVAL_SECONDS = 20, 0.05
"""How often a stage is removed, and what is waited in between: an orphaned git ends at its next read or write."""

__all__ = ["Ahead", "Recovered", "held", "materialise", "prepare", "recover"]


def materialise(
    capture: Capture,
    get: Get,
    folder: Path,
    place: Place,
    *,
    now: Capture | None = None,
    last: Capture | None = None,
    borrow: Path | None = None,
    reason: str = "hhd",
) -> Written:
    """Make `capture` appear at `folder`, in one step, bit for bit.

    `borrow`: the common folder of a local repository that may have what did not come. `reason`: for git's log of a
    branch that moves. Raises NotOurs, HostileCapture, UnfinishedWrite (nothing was changed), LeftBetween.
    """
    finish(place)
    if now is None:
        return into_new(capture, get, folder, place, borrow=borrow)
    return in_place(capture, get, folder, place, now=now, last=last, reason=reason)


def prepare(
    capture: Capture,
    get: Get,
    folder: Path,
    box: Box,
    *,
    now: Capture | None = None,
    last: Capture | None = None,
    borrow: Path | None = None,
    reason: str = "hhd",
) -> Ahead | None:
    """Prepare all of `materialise` but the last step; who gets it drops it in the end.

    None where another preparation for that folder is under way. Raises as `materialise`, and Unready where it can only
    be done at once; then nothing is left of it.
    """
    with contextlib.ExitStack() as kept:
        place = kept.enter_context(held_ahead(folder, box))
        if place is None:
            return None
        finish(place)
        ahead = Ahead(capture, folder, place, kept.pop_all(), box)
    try:
        if now is None:
            ahead.prepare_new(get, borrow=borrow)
        else:
            ahead.prepare_in_place(get, now=now, last=last, reason=reason)
    except BaseException:
        ahead.drop()
        raise
    return ahead


def recover(box: Box) -> list[Recovered]:
    """Finish whatever processes that are dead left half-way, everywhere; what cannot be is kept for the next time."""
    plain = seal_plain(box)
    with left_behind(box) as places:
        return plain + [found for place in places if (found := _tried(place)) is not None]


def _tried(place: Place) -> Recovered | None:
    folder = None
    try:
        pending = place.load()
        folder = None if pending is None else pending.folder
        return finish(place)
    except RefusedError as error:
        return Recovered(folder=folder, done=False, problem=str(error))
    except OSError as error:
        problem = f"What was begun in {folder} cannot be ended ({error.strerror})."
        return Recovered(folder=folder, done=False, problem=problem)


def finish(place: Place) -> Recovered | None:
    """Finish what a dead process left in one place; None if it left nothing, or what it was is not there now."""
    pending = place.load()
    if pending is None or not pending.stage.parent.is_dir():
        return None  # The disk that it is on may be away: the record stays.
    left: tuple[str, ...] = ()
    ours = _is_ours(pending.stage)
    if pending.switch is not None and ours:
        if pending.folder.is_dir():
            switcher = Switcher(pending.switch)
            switcher.forward(stubborn=True)
            left = tuple(switcher.left)
        else:
            left = ("The folder is not there any more.",)
        place.forget_switch(pending)
    _end(pending, place, keep=bool(left) or not ours)
    stage = pending.stage if left else None
    return Recovered(folder=pending.folder, done=pending.switch is not None, stage=stage, left=left)


def _is_ours(stage: Path) -> bool:
    """Whether a folder of this user stands there: its name may be taken by others before it is ours, and after it."""
    try:
        found = stage.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _end(pending: Pending, place: Place, *, keep: bool) -> None:
    """As at the end of a change that was not interrupted: the record last, so that nothing stays behind unnoticed.

    A git that the dead process had started may still write into the stage. What cannot go stays for the next start.
    """
    if pending.lock is not None and pending.lock.parent.is_dir():
        release_lock(pending.lock, pending.token)
    if keep:
        place.clear()
        return
    for _ in range(REMOVALS_MAX):
        shutil.rmtree(pending.stage, ignore_errors=True)
        if not pending.stage.exists():
            place.clear()
            return
        time.sleep(REMOVAL_SECONDS)
