"""Opens the file of a store, or begins one: who holds it, whose it is, of which format, and whether its log is whole.

The note beside the file is written last when a store is made and read first when it is opened (`note.py`).
"""

from __future__ import annotations

from pathlib import Path

from hhd.base.paths import private_folder
from hhd.store import locks
from hhd.store.database import Database
from hhd.store.errors import BusyError, DamagedStoreError
from hhd.store.layout import FILE
from hhd.store.note import note_device, note_is_current, noted_device
from hhd.store.wal import read_log
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId

OPEN_SECONDS = 5.0
"""Who opens first holds the store alone for some milliseconds, who repairs it for longer."""


def open_database(folder: Path, device: DeviceId, *, exclusive: bool, inspect: bool) -> tuple[Database, locks.Lock]:
    """Return the file of the store in `folder`, made if there was none, and the lock by which it is held open.

    `exclusive`: no other process may have it open. `inspect`: it may be damaged; behind a damaged log it is only read,
    since SQLite would fold in what is before the damage and drop the rest.
    Raises what `Store.open` does.
    """
    private_folder(folder)
    opened = locks.take(folder / "open.lock")
    alone = opened is not None
    if opened is None and not exclusive:  # Others have it open, or one is just finding out whether it is alone.
        opened = locks.take_within(folder / "open.lock", OPEN_SECONDS, shared=True)
    if opened is None:
        raise BusyError(
            f"Another process holds the store in {folder}; nothing was changed. Try again when it has ended."
        )
    try:
        noted = noted_device(folder)
        if noted is not None and noted != device_text(device):
            raise DamagedStoreError(
                f"The store in {folder} belongs to device {noted}, but the key of this device is that of "
                f"{device_text(device)}; nothing was changed. Put the right key or the right store back."
            )
        hidden = read_log(folder / f"{FILE}-wal").hidden if alone else 0
        if hidden and not inspect:
            raise _damaged_log(folder, hidden)
        database = _begin(folder, device) if noted is None else Database.open(folder, read_only=bool(hidden))
        if not note_is_current(folder, device):
            note_device(folder, device)  # An older format was migrated.
        if not exclusive:
            opened.share()
    except BaseException:
        opened.release()
        raise
    return database, opened


def _damaged_log(folder: Path, hidden: int) -> DamagedStoreError:
    """Return the error for a log of which SQLite would drop promised commits because of damage before them."""
    return DamagedStoreError(
        f"The write-ahead log of the store in {folder} is damaged: {hidden} pages of later commits are behind the "
        "damage. Nothing was changed. Run `hhd check`, then `hhd check --repair`."
    )


def _begin(folder: Path, device: DeviceId) -> Database:
    """Make a store, or finish making one: the note is written last."""
    path = folder / FILE
    one_at_a_time = locks.take(folder / "begin.lock", wait=True)
    assert one_at_a_time is not None
    with one_at_a_time:
        finished = path.exists() and path.stat().st_size and Database.holds_something(folder)
        database = Database.open(folder) if finished else Database.create(folder)
        note_device(folder, device)
    return database
