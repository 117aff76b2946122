"""What a crash left half-written in folders, ended before anything else is done there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError
from hhd.base.paths import data_folder
from hhd.base.text import visible

if TYPE_CHECKING:
    from hhd.base.box import Box
    from hhd.workspace.recovered import Recovered

_BEGUN, _EARLIER = {".sealed", ".cbor"}, ".lock"
"""Endings of records, the second an earlier hhd's in plain text, and of its locks, whose names tell the folder."""


def box() -> Box:
    """Return what seals the records of what was begun in folders; raises LostKeyError."""
    from hhd.node.this_device import own_box

    return own_box("workspace-pending")


def ended(work: Path | None = None) -> tuple[str, ...]:
    """Finish what dead processes had begun to write, in every folder; return what to tell the person, line by line.

    `work`: where somebody is about to work. Raises RefusedError where what was begun there, above or below it cannot be
    ended: nothing may come in between; LostKeyError.
    """
    there = {file.suffix for file in (data_folder() / "pending").glob("*")}
    if not there & _BEGUN:  # The usual case imports nothing, and needs no key: a start is not slower.
        if _EARLIER in there:
            from hhd.workspace.pending_plain import forget_locks

            forget_locks()
        return ()
    from hhd.workspace.materialise import recover

    found = recover(box())
    for one in found:
        if one.problem and work is not None and _touches(one.folder, work.absolute()):
            raise RefusedError(f"{one.problem} Nothing was begun; `hhd workspace` tries again.")
    return tuple(line for one in found for line in _lines(one))


def _touches(folder: Path | None, work: Path) -> bool:
    """Whether a change of `folder` may be one of `work`; one of an unknown folder may be."""
    if folder is None:
        return True
    work, folder = work.resolve(), folder.resolve()
    return work.is_relative_to(folder) or folder.is_relative_to(work)


def _lines(one: Recovered) -> list[str]:
    if one.problem:
        return [visible(one.problem, one_line=True)]
    end = "was carried to its end" if one.done else "had not begun, and nothing is left of it"
    lines = [f"A change of {_shown(one.folder)} that was interrupted {end}."]
    lines += [f"left alone: {visible(left, one_line=True)}" for left in one.left]
    return lines + ([f"what it would have been is in {_shown(one.stage)}"] if one.stage else [])


def _shown(path: Path | None) -> str:
    return visible(str(path), one_line=True)
