"""Removing everything hhd keeps on this device: shown first, then done, and only what is ours by name.

A folder that a person chose for hhd's data may hold other things too: those are left, and said. Working folders
(`~/hhd`) are a person's work and are never removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from hhd.base import locks
from hhd.base.errors import RefusedError
from hhd.base.paths import cache_folder, config_folder, data_folder, workspaces_folder
from hhd.control.address import LOCK_FILE
from hhd.node.this_device import store_folder
from hhd.store.errors import DamagedStoreError
from hhd.store.note import noted_device

OWN = {
    "data": (
        "identity",
        "store",
        "native",
        "originals",
        "own-capsules",
        "pending",
        "around",
        "logs",
        "run",
        LOCK_FILE,
    ),
    "cache": ("modules", "commands", "native-sessions", "environment"),
    "config": ("config.toml",),
}
"""What hhd makes in each of its folders."""

_ENTRIES_MAX = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Purge:
    """What is removed: the `device` whose key that is, empty where there is none, `paths` and their `bytes`.

    `left`: what stays, since hhd did not make it, or since it is a person's work.
    """

    device: str
    paths: list[Path]
    bytes: int
    left: list[Path]


def shown() -> Purge:
    """Return what there is to remove, with nothing changed."""
    found: list[Path] = []
    left: list[Path] = []
    for kind, folder in (("data", data_folder()), ("cache", cache_folder()), ("config", config_folder())):
        for entry in _entries(folder):
            ours = entry.name in OWN[kind] or entry.name.startswith("config.toml.format-")
            (found if ours else left).append(entry)
    work = workspaces_folder()
    device = ""
    with contextlib.suppress(DamagedStoreError):
        device = noted_device(store_folder()) or ""
    return Purge(
        device=device,
        paths=found,
        bytes=sum(map(_bytes, found)),
        left=[*left, *([work] if work.exists() else [])],
    )


def purge(agreed: Purge) -> Purge:
    """Remove what was `agreed` on; raises RefusedError, with nothing changed, while a process of hhd uses it."""
    data = data_folder()
    if not agreed.paths:
        return agreed
    held = [one for one in (data / LOCK_FILE, store_folder() / "open.lock") if one.exists()]
    with contextlib.ExitStack() as stack:
        for path in held:
            lock = locks.take_within(path, 1.0)
            if lock is None:
                raise RefusedError(
                    f"Another process of hhd still works here (it holds {path}); nothing was removed. End it first."
                )
            stack.enter_context(lock)
        # The key goes first: what a crash leaves after that can be read by nobody.
        for path in sorted(agreed.paths, key=lambda one: (one.name != "identity", one.name == LOCK_FILE)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    for folder in (data, cache_folder(), config_folder()):
        with contextlib.suppress(OSError):  # Not empty: something else is in it.
            folder.rmdir()
    return agreed


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _bytes(path: Path) -> int:
    total, seen, todo = 0, 0, [path]
    while todo and seen < _ENTRIES_MAX:
        one = todo.pop()
        seen += 1
        with contextlib.suppress(OSError):
            if one.is_dir() and not one.is_symlink():
                todo += one.iterdir()
            else:
                total += os.lstat(one).st_blocks * 512
    return total
