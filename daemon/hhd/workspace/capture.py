"""Takes the state of a working folder as a value, without changing anything in it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.paths import own_folders
from hhd.base.text import visible_bytes
from hhd.workspace.capture_folder import capture_folder
from hhd.workspace.capture_repository import capture_repository
from hhd.workspace.contents import Put
from hhd.workspace.memory import Memory
from hhd.workspace.place import find
from hhd.workspace.wanted import Wanted
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture, check


def capture(
    folder: Path, before: Capture | None, put: Put, *, memory: Memory | None = None, wanted: Wanted | None = None
) -> Capture:
    """Return the state of `folder`: of all of the repository it lies in, or of itself if it lies in none.

    `before` is a capture of it whose pieces `put` need not be given again; `memory` is what the same capture left.
    Nothing that came with the folder is executed. Raises RefusedError, with what to do: for a folder of hhd's own, an
    operation of git's that cannot travel, files that keep changing, more bytes than `wanted` allows, a repository that
    git cannot read.
    """
    memory, wanted = memory or Memory(), wanted or Wanted()
    if not folder.is_dir():
        raise RefusedError(f"There is no folder {visible_bytes(os.fsencode(folder))}; nothing was captured.")
    place = find(folder)
    _insist_on_none_of_ours(folder.resolve())
    top = folder.resolve() if place is None else place.top.resolve()
    wanted = replace(wanted, ours=own_below(top))
    if place is None:
        made = capture_folder(folder.resolve(), before, put, memory, wanted)
    else:
        made = capture_repository(place, before, put, memory, wanted)
    try:
        check(made, before)
    except FormatError as error:  # Something that git takes and no receiver would.
        raise RefusedError(f"The state of {visible_bytes(os.fsencode(folder))} cannot travel: {error}.") from error
    return made


def own_below(top: Path) -> frozenset[bytes]:
    """The folders of hhd's own below `top`, which are never looked into."""
    return frozenset(os.fsencode(own.relative_to(top)) for own in own_folders() if own.is_relative_to(top))


def _insist_on_none_of_ours(folder: Path) -> None:
    """Raise RefusedError if `folder` is in a folder of hhd's own."""
    if any(folder.is_relative_to(own) for own in own_folders()):
        raise RefusedError(f"{visible_bytes(os.fsencode(folder))} is a folder of hhd's own; nothing was captured.")
