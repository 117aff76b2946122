"""The archive of originals as it was before there was a sealed store: a folder in plain text, read once and moved.

`objects/AB/ABCD…` holds pieces and lists of files, each one zstd frame, named by its SHA-256; `sessions/HARNESS/ID`
names the originals of one session, oldest first. Moving copies each original to the sealed archive, reads it back from
there whole, and only then takes it off its session's list; the folder goes in one step when no list names anything.
A crash in between leaves an original here, or there, or in both, and moving again goes on.

An original that is damaged here stays here: there is nothing to seal that is known to be right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from hhd.base import files
from hhd.base.errors import UserError
from hhd.native.archive import Archive, ArchiveError, Original, Shelf, decode_original, encode_original, verified
from hhd_protocol.compression import decompress
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_GONE = ".moved"
"""Behind the name of a folder whose originals are all sealed: whatever is left of it is removed."""


class PlainArchive:
    """The archive in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._moved = folder.with_name(folder.name + _GONE)

    def exists(self) -> bool:
        """Say whether there is anything to move or to remove."""
        return self.folder.exists() or self._moved.exists()

    def move_to(self, shelf: Shelf) -> list[str]:
        """Move every sound original to the archive on `shelf`; return one sentence for each damaged one, which stays.

        Raises UserErrors of the shelf, OSError; what was moved until then is moved.
        """
        sealed, damaged = Archive(shelf), list[str]()
        if self._moved.exists():
            shutil.rmtree(self._moved)
        if not self.folder.exists():
            return []
        with shelf.held():
            for path in self._lists():
                names, left = path.read_text(errors="replace").split(), []
                for name in names:
                    try:
                        original = self.original(name)
                    except ArchiveError as error:
                        damaged.append(str(error))
                        left.append(name)
                        continue
                    try:
                        self._copy(original, sealed, shelf)
                    except ArchiveError as error:
                        damaged.append(f"{original.harness.value} {original.id}: {error}")
                        left.append(name)
                if left != names:
                    _shorten(path, left)
        if not damaged:
            os.rename(self.folder, self._moved)
            files.sync_folder(self.folder.parent)
            shutil.rmtree(self._moved)
        else:
            self._remove_sealed(shelf)
        return damaged

    def original(self, name: str) -> Original:
        """The original of that name. Raises ArchiveError."""
        return decode_original(name, self._get(name))

    def _lists(self) -> Iterator[Path]:
        for harness in Harness:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                yield from sorted((self.folder / "sessions" / harness.value).iterdir())

    def _copy(self, original: Original, sealed: Archive, shelf: Shelf) -> None:
        """Copy an original and read it back; raises ArchiveError if it is not what it was kept as."""

        def either(piece: bytes) -> bytes:
            try:
                return self._get(piece.hex())
            except ArchiveError:
                with contextlib.suppress(UserError):
                    return shelf.get(piece)  # Another original had it, and moved.
                raise

        for file in original.files:
            pieces = iter(file.pieces)
            for raw in verified(file, either):
                shelf.put(next(pieces), raw)
        raw = encode_original(original)
        assert hashlib.sha256(raw).hexdigest() == original.name, "a list has one encoding"
        sealed.enter(original, raw)
        for file in sealed.original(original.name).files:
            for _ in sealed.read(file):
                pass

    def _remove_sealed(self, shelf: Shelf) -> None:
        """Remove the objects that are sealed by now, also those that a damaged original shares with others."""
        for path in sorted((self.folder / "objects").rglob("*")):
            if path.is_file() and _NAME.match(path.name):
                with contextlib.suppress(UserError):
                    shelf.get(bytes.fromhex(path.name))
                    path.unlink()

    def _get(self, name: str) -> bytes:
        if not _NAME.match(name):
            raise ArchiveError("The archive names an object that cannot be.")
        damaged = ArchiveError(f"The object {name[:16]} in {self.folder} is damaged or missing.")
        try:
            packed = (self.folder / "objects" / name[:2] / name).read_bytes()
            raw = decompress(packed, bytes_max=64 * ARCHIVE_PIECE_BYTES)
        except (OSError, FormatError) as error:
            raise damaged from error
        if hashlib.sha256(raw).hexdigest() != name:
            raise damaged
        return raw


def _shorten(path: Path, names: list[str]) -> None:
    """Leave these names on a session's list; without any, there is no list."""
    if names:
        files.replace(path, ["".join(f"{name}\n" for name in names).encode()])
    else:
        path.unlink()
        files.sync_folder(path.parent)
