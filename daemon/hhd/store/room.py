"""How much a store may use up: what of the disk stays free, and how large the file may become."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hhd.store.database import Database
from hhd.store.errors import FullStoreError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the store may use up: `free_bytes_min` of the disk stay free, the file stays below `bytes_max` (0: any)."""

    free_bytes_min: int = 128 * 1024 * 1024
    bytes_max: int = 0


def insist_on_room(folder: Path, database: Database, limits: Limits, size: int) -> None:
    """Raise FullStoreError if `size` more bytes would pass what the configuration leaves free or allows."""
    free = shutil.disk_usage(folder).free
    if free - size < limits.free_bytes_min:
        raise FullStoreError(
            f"Only {free >> 20} MiB are free where the store is, and {limits.free_bytes_min >> 20} MiB are to "
            "stay so: nothing was stored and the session is paused. Free some space or run `hhd gc`, then go on."
        )
    used = database.bytes_used() - database.bytes_free() if limits.bytes_max else 0
    if limits.bytes_max and used + size > limits.bytes_max:
        raise FullStoreError(
            f"The store has {used >> 20} MiB of the {limits.bytes_max >> 20} MiB it may have: nothing was "
            "stored and the session is paused. Run `hhd gc`, or raise store.bytes_max, then go on."
        )
