"""Records of what was begun as an earlier hhd kept them, in plain text: sealed at a start, and gone."""

from __future__ import annotations

import os
from pathlib import Path

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.base.files import sync_folder, temporary_start
from hhd.workspace.pending import LOCK, PLAIN, PLAIN_LOCK, Place, locked, name_of, parsed, pending_folder
from hhd.workspace.recovered import Recovered


def seal_plain(box: Box) -> list[Recovered]:
    """Seal every plain record whose process is dead, and take its lock away: the name alone says which folder.

    Returns what cannot be sealed now; that stays as it is.
    """
    folder = pending_folder()
    found = []
    for name in sorted({file.stem for ending in (PLAIN, PLAIN_LOCK) for file in folder.glob(f"*{ending}")}):
        with locked(name, PLAIN_LOCK) as dead:
            problem = _sealed(folder / f"{name}{PLAIN}", box) if dead else None
        if problem is not None:
            found.append(problem)
    return found


def _sealed(file: Path, box: Box) -> Recovered | None:
    """First the sealed record is on disk, then the plain one goes, then its lock, which is held: a crash in between
    has this done once more."""
    whose = None
    try:
        if file.exists():
            pending = parsed(file, file.read_bytes())
            whose = pending.folder
            name = name_of(whose, box)
            with locked(name, LOCK) as free:
                place = Place(name, box)
                if not free or place.load() not in (None, pending):
                    return None  # Another change of that folder is under way, or to be ended first.
                place.save(pending)
            os.unlink(file)
        for temporary in file.parent.glob(f"{temporary_start(file)}*"):
            os.unlink(temporary)
        file.with_suffix(PLAIN_LOCK).unlink(missing_ok=True)
        sync_folder(file.parent)
    except RefusedError as error:
        return Recovered(folder=whose, done=False, problem=str(error))
    except OSError as error:
        problem = f"What was begun in {whose} cannot be ended ({error.strerror})."
        return Recovered(folder=whose, done=False, problem=problem)
    return None
