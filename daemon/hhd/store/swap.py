"""Puts a repaired file in the place of the damaged one, and carries that to its end if it was cut off.

The damaged file and its write-ahead log go first, so that neither is ever used without the other or with the new file;
between two steps the folder is synced. While there is no file the store does not open, and a repair finds the mended
one.
"""

from __future__ import annotations

import os
from pathlib import Path

from hhd.base import files
from hhd.store.layout import FILE, MENDED

_LOG = f"{FILE}-wal"


def swap(folder: Path, new: Path) -> Path:
    """Let the file `new`, durable and closed, be the store's in `folder`; return what the old one is called now."""
    os.rename(new, folder / MENDED)
    files.sync_folder(folder)
    keep = folder / f"{FILE}.damaged-{_kept(folder) + 1}"
    if (folder / FILE).exists():
        os.rename(folder / FILE, keep)
        files.sync_folder(folder)
    _finish(folder, keep)
    return keep


def unfinished(folder: Path) -> Path | None:
    """Carry a swap that was cut off to its end; return what the old file is called, None if there was none to finish.

    One that had not begun is forgotten: the damaged file is still in its place.
    """
    if not (folder / MENDED).exists():
        return None
    if (folder / FILE).exists():
        (folder / MENDED).unlink()
        return None
    keep = folder / f"{FILE}.damaged-{max(1, _kept(folder))}"
    _finish(folder, keep)
    return keep


def _finish(folder: Path, keep: Path) -> None:
    if (folder / _LOG).exists():
        os.rename(folder / _LOG, f"{keep}-wal")
        files.sync_folder(folder)
    (folder / f"{FILE}-shm").unlink(missing_ok=True)
    os.rename(folder / MENDED, folder / FILE)
    files.sync_folder(folder)


def _kept(folder: Path) -> int:
    number = 0
    while any((folder / f"{FILE}.damaged-{number + 1}{ending}").exists() for ending in ("", "-wal")):
        number += 1
    return number
