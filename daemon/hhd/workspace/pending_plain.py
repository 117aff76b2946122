"""Records of what was begun as an earlier hhd kept them, in plain text: sealed at a start, and gone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.base.files import sync_folder, temporary_start
from hhd.workspace.pending import LOCK, PLAIN, PLAIN_LOCK, Place, locked, name_of, parsed, pending_folder
from hhd.workspace.recovered import Recovered


def seal_plain(box: Box) -> list[Recovered]:
    """Seal every plain record whose process is dead; returns what cannot be sealed now, which stays as it is."""
    found = []
    for file in sorted(pending_folder().glob(f"*{PLAIN}")):
        with locked(file.stem, PLAIN_LOCK) as dead:
            problem = _sealed(file, box) if dead else None
        if problem is not None:
            found.append(problem)
    forget_locks()
    return found


def forget_locks() -> None:
    """Take away locks that are beside no plain record: the name alone says which folder. No key is needed."""
    with contextlib.suppress(OSError):  # They can wait for another start.
        for lock in sorted(pending_folder().glob(f"*{PLAIN_LOCK}")):
            with locked(lock.stem, PLAIN_LOCK) as dead:
                record = lock.with_suffix(PLAIN)
                if not dead or record.exists():
                    continue
                for half_written in lock.parent.glob(f"{temporary_start(record)}*"):
                    half_written.unlink(missing_ok=True)
                lock.unlink(missing_ok=True)


def _sealed(file: Path, box: Box) -> Recovered | None:
    """The sealed record is on disk before the plain one goes: a crash in between has this done once more."""
    whose = None
    try:
        if not file.exists():
            return None  # Another process was quicker.
        pending = parsed(file, file.read_bytes())
        whose = pending.folder
        name = name_of(whose, box)
        with locked(name, LOCK) as free:
            place = Place(name, box)
            if free and place.load() in (None, pending):  # Else another change of that folder is to be ended first.
                place.save(pending)
                os.unlink(file)
                sync_folder(file.parent)
    except RefusedError as error:
        return Recovered(folder=whose, done=False, problem=str(error))
    except OSError as error:
        problem = f"What was begun in {whose} cannot be ended ({error.strerror})."
        return Recovered(folder=whose, done=False, problem=problem)
    return None
