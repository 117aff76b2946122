"""The note beside the database that says that there is a store here, of which format, and whose.

It is the last thing written when a store is made. With it a database that is gone or emptied is not taken for a new
store, and a device key that is gone is not taken for a first use.
"""

from __future__ import annotations

from pathlib import Path

from hhd.base import files
from hhd.store.errors import DamagedStoreError
from hhd.store.layout import FORMAT, newer
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId

FORMAT_FILE = "format"


def noted_device(folder: Path) -> str | None:
    """Return the device that the store in `folder` says it belongs to, None if there is no store.

    Raises NewerStoreError, DamagedStoreError if the note is not one.
    """
    try:
        words = (folder / FORMAT_FILE).read_bytes()[:200].decode("ascii", "replace").split()
    except FileNotFoundError:
        return None
    if len(words) == 3 and words[0] == "hhd-store" and words[1].isdecimal():
        if int(words[1]) > FORMAT:
            raise newer(folder, int(words[1]))
        return words[2]
    raise DamagedStoreError(
        f"{folder / FORMAT_FILE} is damaged: it should say `hhd-store {FORMAT}` and the device. Nothing was changed. "
        "`hhd check --repair` writes it anew."
    )


def noted_format(folder: Path) -> int | None:
    """Return the format that the note says, None if there is no store; raises what `noted_device` does."""
    if noted_device(folder) is None:
        return None
    return int((folder / FORMAT_FILE).read_bytes()[:200].split()[1])


def note_device(folder: Path, device: DeviceId) -> None:
    """Write down, durably, that there is a store here and whose."""
    files.replace(folder / FORMAT_FILE, [_note(device)])


def _note(device: DeviceId) -> bytes:
    return f"hhd-store {FORMAT} {device_text(device)}\n".encode()


def note_is_current(folder: Path, device: DeviceId) -> bool:
    """Say whether the note is the one of this format; an older one is left when a migration was cut off."""
    return (folder / FORMAT_FILE).read_bytes() == _note(device)
