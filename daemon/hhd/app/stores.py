"""This device's store: checked, mended, emptied of what nothing needs, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.node.store import StoreUsage
    from hhd.store.check import Report as StoreReport
    from hhd.store.repair import Repaired
    from hhd.store.retention import Swept


def check(*, read_data: bool) -> StoreReport:
    """Read the whole store and say what is damaged."""
    from hhd.node import store

    return store.check(read_data=read_data)


def repair() -> Repaired:
    """Mend the store; raises BusyError while another process has it open."""
    from hhd.node import store

    return store.repaired()


def gc(*, dry_run: bool) -> tuple[Swept, int]:
    """Thin old checkpoints and free what nothing needs; what was done, and by how many bytes the file shrank."""
    from hhd.node import store

    return store.collect(dry_run=dry_run)


def usage() -> StoreUsage:
    """What uses how much of the store."""
    from hhd.node import store

    return store.usage()


def paths() -> dict[str, Path]:
    """Where hhd keeps things on this device."""
    from hhd.node import store

    return store.paths()
