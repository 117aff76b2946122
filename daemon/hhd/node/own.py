"""Which capsule files this user of this device wrote, and where they were last at work.

A capsule that is not in the register runs nothing before a person has agreed, so the register must not be forgeable
by a file: it holds the digests of files written here, in a private folder, and what a file says about itself plays no
part. It is a convenience: if it is lost, hhd asks once more. So it is not synced, and forgets the oldest.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.files import replace, write_all
from hhd.base.paths import data_folder, private_folder

RECORD_BYTES = 64
RECORDS_MAX = 32_768
"""2 MiB, read in about a millisecond. A long session writes a few thousand."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where and when a session works: what the agent is asked to notice when it changes."""

    folder: Path
    date: str

    def digest(self) -> bytes:
        """32 bytes that are equal for equal places of this user on this device."""
        parts = (os.uname().nodename, str(os.geteuid()), str(self.folder), self.date)
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()


UNKNOWN = bytes(32)
"""The place of a file that was written here by something else than a run in a folder."""


class Owner:
    """Whether one capsule file was written here by this user, kept true while that file is saved anew.

    Saving a file that came from elsewhere does not make it one's own: only a person's `adopt` does.
    """

    def __init__(self, digest: bytes, register: Register | None = None) -> None:
        """`digest`: of the file as it is now. A register that cannot be used makes no file one's own."""
        self._register = register or Register()
        self.place: bytes | None = None
        with contextlib.suppress(OSError, RefusedError):
            self.place = self._register.find(digest)

    def adopt(self) -> None:
        """A person saw what it is, and agreed."""
        self.place = UNKNOWN

    def will_save(self, digest: bytes) -> None:
        """The file is about to be saved anew and to have this digest. (Noted before, so that no kill comes between.)"""
        if self.place is not None:
            with contextlib.suppress(OSError, RefusedError):
                self._register.add(digest, self.place)


class Register:
    """The register of one user on one device."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or data_folder()
        self._file = self._folder / "own-capsules"

    def add(self, file: bytes, place: bytes) -> None:
        """Note that a file whose digest is `file` was written here, at work in `place` (32 bytes each)."""
        assert len(file) == len(place) == RECORD_BYTES // 2
        private_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._file, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if torn := os.fstat(fd).st_size % RECORD_BYTES:
                os.ftruncate(fd, os.fstat(fd).st_size - torn)
            write_all(fd, [file + place])
            if os.fstat(fd).st_size > RECORDS_MAX * RECORD_BYTES:
                self._forget_half()
        finally:
            os.close(fd)

    def find(self, file: bytes) -> bytes | None:
        """The place noted last with the file whose digest is `file`; None if it was not written here."""
        raw = self._read()
        at = raw.rfind(file)
        while at >= 0 and at % RECORD_BYTES:  # Found within or across records: it is no file's digest there.
            at = raw.rfind(file, 0, at + len(file) - 1)
        return None if at < 0 else raw[at + RECORD_BYTES // 2 : at + RECORD_BYTES]

    def _read(self) -> bytes:
        with (
            contextlib.suppress(FileNotFoundError),
            open(private_folder(self._folder) / self._file.name, "rb") as source,
        ):
            raw = source.read(2 * RECORDS_MAX * RECORD_BYTES)
            return raw[: len(raw) // RECORD_BYTES * RECORD_BYTES]
        return b""

    def _forget_half(self) -> None:
        """A record that another process adds to the old file just now is lost: then hhd asks once more."""
        replace(self._file, [self._read()[-RECORDS_MAX * RECORD_BYTES // 2 :]])
