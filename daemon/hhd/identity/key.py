"""The key of this device: made once, durably, and never replaced by a new one because the old one cannot be read.

A second identity would be the worst way to fail: the store, the pairings and every signed record belong to the first.
So the key is noted in two more places, `device` beside it and `format` in the store, and whatever does not fit
together is an error that says what was found.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from hhd.base import files
from hhd.base.errors import RefusedError
from hhd.base.paths import private_folder
from hhd_protocol.crypto import KEY_BYTES, device_from_text, device_id, device_text, public_key
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

KEY_FILE, NOTE_FILE = "device.key", "device"
_KEY_WORD, _NOTE_WORD = "hhd-device-key-1", "hhd-device-1"
_FILE_BYTES_MAX = 4096


class LostKeyError(RefusedError):
    """The key of this device was there and cannot be read now, or is not the one it was: nothing was changed."""


class Vault(Protocol):
    """Where a key may be kept instead of a file: the keyring of the desktop."""

    name: str

    def get(self) -> str | None:
        """Return what was set, None if nothing was."""

    def set(self, text: str) -> None:
        """Keep `text`."""


class Identity(NamedTuple):
    """This device: its private `seed`, `public` key and id. A named tuple, as `WrappedKey` is and for its reason."""

    seed: bytes
    public: bytes
    id: DeviceId

    def __repr__(self) -> str:
        return f"Identity(id={self.text})"

    @property
    def text(self) -> str:
        """The id as a person reads it."""
        return device_text(self.id)


def open_identity(
    folder: Path,
    *,
    store_device: str | None = None,
    vault: Vault | None = None,
    random: Callable[[int], bytes] = os.urandom,
) -> Identity:
    """Return this device's identity, made now if there never was one.

    `store_device`: the device that the store says it belongs to, None if there is no store. `vault`: where the key is
    to be made instead of a file; a key that exists is read from where it is noted to be.
    Raises LostKeyError, RefusedError if the folder is not this user's.
    """
    private_folder(folder)
    noted, place = _note(folder)
    in_vault = place == "keyring" or (place is None and vault is not None)
    text = _from_vault(vault, folder) if in_vault else _from_file(folder / KEY_FILE)
    if text is None:
        expected = noted or store_device
        if expected is not None:
            where = "the keyring" if in_vault else str(folder / KEY_FILE)
            raise LostKeyError(
                f"The key of this device ({expected}) is gone from {where}; no new one was made, because the store and "
                "every paired device know the old one. Restore it from a backup, or move the data folder away to begin "
                "anew as a new device."
            )
        text = _make(folder, vault if in_vault else None, random)
    identity = _identity(text, folder)
    for what, device in (("the note beside it", noted), ("the store", store_device)):
        if device is not None and device != identity.text:
            raise LostKeyError(
                f"The key in {folder} is that of device {identity.text}, but {what} says {device}; nothing "
                "was changed. "
                "Put the right key back."
            )
    if noted is None:
        where = "keyring" if in_vault else "file"
        files.replace(folder / NOTE_FILE, [f"{_NOTE_WORD} {identity.text} {where}\n".encode()])
    return identity


def key_is_in_file(folder: Path) -> bool:
    """Say whether the note beside the key says that it is in a file here; raises LostKeyError if that is damaged."""
    return _note(folder)[1] == "file"


def _note(folder: Path) -> tuple[str | None, str | None]:
    raw = _read(folder / NOTE_FILE)
    if raw is None:
        return None, None
    words = raw.split()
    try:
        if len(words) != 3 or words[0] != _NOTE_WORD or words[2] not in ("file", "keyring"):
            raise FormatError("not a note")
        return device_text(device_from_text(words[1])), words[2]
    except FormatError as error:
        raise LostKeyError(
            f"{folder / NOTE_FILE} is damaged: it should name this device and where its key is. If "
            f"{folder / KEY_FILE} is "
            "whole, remove the damaged file; it is written anew."
        ) from error


def _from_file(path: Path) -> str | None:
    raw = _read(path)
    if raw is not None and stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
        raise LostKeyError(f"{path} is open to other users of this machine; nothing was done. Run: chmod 600 {path}")
    return raw


def _from_vault(vault: Vault | None, folder: Path) -> str | None:
    if vault is None:
        raise LostKeyError(
            f"The key of this device is in the keyring ({folder / NOTE_FILE} says so), which is not in use "
            "now; nothing "
            "was done. Set identity.keyring in the configuration and unlock the keyring."
        )
    return vault.get()


def _read(path: Path) -> str | None:
    """Return the text of a file of ours, None if there is none; raises LostKeyError if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LostKeyError(f"{path} is there but cannot be read ({error.strerror}); nothing was changed.") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise LostKeyError(f"{path} is not a file of this user; nothing was changed.")
        return os.read(fd, _FILE_BYTES_MAX).decode("ascii", "replace")
    except OSError as error:
        raise LostKeyError(f"{path} is there but cannot be read ({error.strerror}); nothing was changed.") from error
    finally:
        os.close(fd)


def _make(folder: Path, vault: Vault | None, random: Callable[[int], bytes]) -> str:
    """Make a key and return its text; another process that was quicker has made it instead."""
    text = f"{_KEY_WORD} {base64.b64encode(random(KEY_BYTES)).decode('ascii')}\n"
    if vault is not None:
        vault.set(text)
        return text
    path = folder / KEY_FILE
    temp = folder / f".{KEY_FILE}.{os.urandom(6).hex()}.tmp"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        files.write_all(fd, [text.encode()])
        files.sync_file(fd)
        with contextlib.suppress(FileExistsError):
            os.link(temp, path)
    finally:
        os.close(fd)
        os.unlink(temp)
    files.sync_folder(folder)
    made = _from_file(path)
    assert made is not None
    return made


def _identity(text: str, folder: Path) -> Identity:
    words = text.split()
    try:
        if len(words) != 2 or words[0] != _KEY_WORD:
            raise ValueError("not a key")
        seed = base64.b64decode(words[1], validate=True)
        if len(seed) != KEY_BYTES:
            raise ValueError("not a key")
    except (ValueError, binascii.Error) as error:
        raise LostKeyError(
            f"The key of this device ({folder / KEY_FILE}) is damaged; no new one was made. Restore it from a backup."
        ) from error
    public = public_key(seed)
    return Identity(seed=seed, public=public, id=device_id(public))
