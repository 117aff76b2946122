"""The archive of originals of native sessions on this device: on the shelf of the sealed store.

What an earlier hhd kept in a folder in plain text is moved there the first time that somebody asks for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hhd.base.paths import data_folder
from hhd.native.archive import Archive
from hhd.native.plain_archive import PlainArchive
from hhd.node import store as stores
from hhd.store.store import Store


def plain_folder() -> Path:
    """Return where an earlier hhd kept originals in plain text."""
    return data_folder() / stores.PLAIN_ORIGINALS


@contextmanager
def opened() -> Iterator[Archive]:
    """The archive of originals on this device."""
    with stores.opened() as store:
        move_in(store)
        yield Archive(store.shelf)


def move_in(store: Store) -> list[str]:
    """Move originals in plain text into the store; return one sentence for each that is damaged, which stays."""
    for left in ("restored", "manifests"):  # In plain text: what conversions once made and left.
        if (old := data_folder() / "native" / left).exists():
            shutil.rmtree(old)
    plain = PlainArchive(plain_folder())
    return plain.move_to(store.shelf) if plain.exists() else []


def check() -> list[str]:
    """Read the whole archive; the damages found."""
    with stores.opened() as store:
        return [*move_in(store), *Archive(store.shelf).check()]
