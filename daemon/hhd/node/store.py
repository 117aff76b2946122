"""The verbs of the store: check, gc, du, paths; and the one way to open identity and store together.

Identity and store remember each other: the store says whose it is, the identity's note says that there was a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base import config
from hhd.base.paths import cache_folder, config_folder, data_folder
from hhd.node.this_device import identity as identity
from hhd.node.this_device import identity_folder as identity_folder
from hhd.node.this_device import store_folder as store_folder
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import FILE
from hhd.store.store import Limits, Store

if TYPE_CHECKING:  # What one verb needs is imported by that verb: most only open the store.
    from hhd.identity.key import Identity
    from hhd.store.check import Report
    from hhd.store.repair import Repaired
    from hhd.store.retention import Swept
    from hhd_protocol.ids import CheckpointId

PLAIN_ORIGINALS = "originals"
"""The folder in which an earlier hhd kept originals of native sessions in plain text."""


def limits() -> Limits:
    """Return what the configuration lets the store use up."""
    chosen = config.load().store
    return Limits(free_bytes_min=chosen.free_bytes_min, bytes_max=chosen.bytes_max)


@contextmanager
def opened(me: Identity | None = None) -> Iterator[Store]:
    """The store of this device, whose identity is `me`, made now if there never was one."""
    seed = (me or identity()).seed
    with Store.open(store_folder(), seed=seed, limits=limits()) as store:
        yield store


def check(*, read_data: bool) -> Report:
    """Check the whole store; damage so deep that it does not open is a finding, too."""
    from hhd.store.check import Check, Report

    me = identity()
    try:
        with Store.open(store_folder(), seed=me.seed, limits=limits(), inspect=True) as store:
            report = Check(store, read_data=read_data).run()
    except DamagedStoreError as error:
        report = Report()
        report.add("store", error)
    if (data_folder() / PLAIN_ORIGINALS).exists():
        report.add("originals", "kept in plain text by an earlier hhd; `hhd gc` moves them into the store")
    return report


def repaired() -> Repaired:
    """Repair the store."""
    from hhd.node.programs import builtin_module
    from hhd.store.repair import repair

    me = identity(repairing=True)
    return repair(store_folder(), seed=me.seed, limits=limits(), module=builtin_module)


def collect(*, dry_run: bool) -> tuple[Swept, int]:
    """Thin and free; return what was done and by how many bytes the file shrank."""
    from hhd.node import originals
    from hhd.store.retention import sweep

    with opened() as store:
        if not dry_run:
            originals.move_in(store)
        swept = sweep(store, keep_days=config.load().store.keep_days, picked=_picked(store), dry_run=dry_run)
        before = (store_folder() / FILE).stat().st_size
        if not dry_run and store.database.bytes_free() * 4 > store.database.bytes_used():
            store.database.shrink()
        return swept, before - (store_folder() / FILE).stat().st_size


def _picked(store: Store) -> set[CheckpointId]:
    """The heads that a person prefers; raises DamagedStoreError where it is not known which."""
    from hhd.node import listing, registry

    registry.catch_up(store)
    with store.transaction():
        known = [listing.facts(store, half).picked for half in store.facts.entries()]
    return {one for one in known if one is not None}


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one session uses."""

    session: str
    checkpoints: int
    thinned: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class StoreUsage:
    """What the store uses: the file, its unused part, each session (content shared by forks counts for each),
    originals of native sessions, captures of folders that belong to no session."""

    file_bytes: int
    free_bytes: int
    sessions: list[Usage]
    modules: int
    originals: int
    originals_bytes: int
    captures: int
    captures_bytes: int


def usage() -> StoreUsage:
    """Say what uses how much."""
    from hhd.store.retention import folder_bytes, session_bytes, shelf_bytes

    with opened() as store, store.snapshot():
        sessions = []
        for session in store.sessions():
            count, thinned, size = session_bytes(store, session)
            sessions.append(Usage(session=session.hex(), checkpoints=count, thinned=thinned, bytes=size))
        lists, size = shelf_bytes(store)
        captures, captures_bytes = folder_bytes(store)
        return StoreUsage(
            file_bytes=store.database.bytes_used(),
            free_bytes=store.database.bytes_free(),
            sessions=sorted(sessions, key=lambda one: -one.bytes),
            modules=len(store.modules.all()),
            originals=lists,
            originals_bytes=size,
            captures=captures,
            captures_bytes=captures_bytes,
        )


def paths() -> dict[str, Path]:
    """Return where things are, by what they are."""
    return {
        "config": config_folder() / "config.toml",
        "identity": identity_folder(),
        "store": store_folder(),
        "data": data_folder(),
        "cache": cache_folder(),
    }
