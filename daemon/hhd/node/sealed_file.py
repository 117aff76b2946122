"""Sealed capsules on disk: what one says it is without being opened, and how it is opened or made here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.base.files import Buffer
from hhd.base.text import visible
from hhd.node.store import identity, store_folder
from hhd.store.note import noted_device
from hhd_protocol import sealed
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import PASSPHRASE_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class SealedReport:
    """A sealed capsule, unopened: its file, and for which device it is, None if a passphrase opens it.

    `here`: it is for this device. `memory_bytes`, `operations`: what trying a passphrase costs.
    """

    path: Path
    capsule_bytes: int
    to: str | None
    here: bool
    operations: int = 0
    memory_bytes: int = 0

    def fields(self) -> dict[str, object]:
        """The JSON object of `--json`."""
        return {
            "status": "sealed",
            "sealed": "to-device" if self.to is not None else "passphrase",
            "to": self.to,
            "here": self.here,
            "capsule_bytes": self.capsule_bytes,
            "operations": self.operations,
            "memory_bytes": self.memory_bytes,
        }

    @property
    def sentence(self) -> str:
        """What it is and how to go on with it, without the name of the file."""
        name = shlex.quote(visible(str(self.path), one_line=True))
        if self.to is None:
            return f"is a capsule sealed with a passphrase; open it with: hhd import {name} --passphrase-fd 0"
        if self.here:
            return f"is a capsule sealed to this device; open it with: hhd import {name}"
        return f"is a capsule sealed to device {self.to}, and only that one can open it"


def report(raw: bytes | memoryview, path: Path) -> SealedReport:
    """Return what the sealed file `raw` at `path` says it is; raises RefusedError where it is none, or damaged."""
    lock = _decoded(raw, path).lock
    if isinstance(lock, sealed.ByPassphrase):
        return SealedReport(
            path=path,
            capsule_bytes=len(raw),
            to=None,
            here=False,
            operations=lock.operations,
            memory_bytes=lock.memory_bytes,
        )
    text = device_text(lock.to)
    return SealedReport(path=path, capsule_bytes=len(raw), to=text, here=text == _this_device())


def opened(raw: bytes | memoryview, path: Path, *, passphrase: bytes | None) -> sealed.Opened:
    """Open the sealed file `raw` at `path` as this device, or with `passphrase`.

    Raises RefusedError, with one sentence, for a file that does not open; UsageError where the wrong way was chosen.
    """
    found = _decoded(raw, path)
    if isinstance(found.lock, sealed.ByPassphrase) and passphrase is None:
        raise UsageError(f"{path} is sealed with a passphrase; name the descriptor it comes by: --passphrase-fd 0.")
    if isinstance(found.lock, sealed.ToDevice) and passphrase is not None:
        raise UsageError(f"{path} is sealed to a device, so no passphrase opens it; leave --passphrase-fd out.")
    try:
        return found.open_as(identity().seed) if passphrase is None else found.open_with(passphrase)
    except FormatError as error:
        raise RefusedError(f"{path} was refused: {error}.") from error


def sealed_parts(
    content: Sequence[Buffer], *, seed: bytes, to_public: bytes | None, passphrase: bytes | None
) -> Iterable[bytes]:
    """Return the sealed file of `content`, to a device's key or with a passphrase; raises RefusedError."""
    parts = [memoryview(part) for part in content]
    key = os.urandom(32)
    try:
        if to_public is not None:
            return sealed.seal_to_device(
                parts, to_public=to_public, by_seed=seed, file_key=key, ephemeral_secret=os.urandom(32)
            )
        assert passphrase is not None
        return sealed.seal_with_passphrase(
            parts, passphrase=passphrase, by_seed=seed, file_key=key, salt=os.urandom(sealed.SALT_BYTES)
        )
    except FormatError as error:
        raise RefusedError(f"Nothing was sealed: {error}.") from error


def passphrase_from(fd: int) -> bytes:
    """Return the passphrase that descriptor `fd` gives: all its bytes, or its first line at a terminal, without the
    line end. Raises UsageError where it gives none."""
    raw = b""
    try:
        while len(raw) <= PASSPHRASE_BYTES_MAX + 2 and (part := os.read(fd, PASSPHRASE_BYTES_MAX + 3 - len(raw))):
            raw += part
            if os.isatty(fd) and raw.endswith(b"\n"):
                break
    except OSError as error:
        raise UsageError(f"No passphrase can be read from descriptor {fd} ({error.strerror}).") from error
    words = raw.removesuffix(b"\n").removesuffix(b"\r")
    if not words:
        raise UsageError(f"Descriptor {fd} gave no passphrase; nothing was done.")
    if len(words) > PASSPHRASE_BYTES_MAX or b"\n" in words:
        raise UsageError(f"A passphrase is one line of at most {PASSPHRASE_BYTES_MAX} bytes; nothing was done.")
    return words


def _decoded(raw: bytes | memoryview, path: Path) -> sealed.Sealed:
    try:
        return sealed.decode(raw)
    except FormatError as error:
        raise RefusedError(f"{path} was refused: {error}.") from error


def _this_device() -> str | None:
    """This device's id as a person reads it, None where there is none yet or the store cannot say: nothing is made."""
    try:
        return noted_device(store_folder())
    except (OSError, UserError):
        return None
