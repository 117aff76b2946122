"""Originals of native sessions, kept exactly: the session's file, its bases and its side folder, byte for byte.

A folder of immutable objects named by their SHA-256. A file is cut into pieces of 1 MiB; since clients only append, a
session that grew shares all but its last piece with what was kept before. An original is a list of files with their
pieces, itself an object; `sessions/HARNESS/ID` names the originals of one session, oldest first.

Objects are written before what names them, each in one durable step, so a power cut leaves at most pieces that nothing
names. Keeping the same thing twice changes nothing. What is read back is checked against its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
import zstandard

from hhd.base import files
from hhd.base.errors import RefusedError
from hhd.base.paths import private_folder
from hhd.native.source import Source
from hhd_protocol import codec
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import ARCHIVE_FILES_MAX, ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness

_VERSION = 1
_NAME = re.compile(r"[0-9a-f]{64}\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")


class ArchiveError(RefusedError):
    """The archive does not hold what it should; the sentence says what."""


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """One file of an original: `path` relative to the folder of the session's file, or "bases/NAME"."""

    path: str
    size: int
    mtime_ns: int
    sha256: bytes
    pieces: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Original:
    """A session as it was when it was kept. The first file is the session's own."""

    name: str
    harness: Harness
    id: str
    source: str
    files: tuple[KeptFile, ...]

    @property
    def size(self) -> int:
        """How many bytes its files have together."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What keeping did: the original, whether it is new, and how many bytes of objects were written."""

    original: Original
    new: bool
    written: int


class _Form(msgspec.Struct, frozen=True):
    version: int
    harness: Literal["claude", "codex", "pi"]
    id: str
    source: str
    files: list[tuple[str, int, int, bytes, list[bytes]]]


class Archive:
    """The archive in one folder."""

    def __init__(self, folder: Path) -> None:
        """Open the archive in `folder`, making it if it is not there."""
        self.folder = private_folder(folder)

    def keep(self, harness: Harness, session: str, path: Path, beside: Iterable[str], bases: Iterable[Path]) -> Kept:
        """Keep the session in `path` with the files `beside` it (relative to its folder) and its `bases`.

        Raises OSError, RefusedError. A file that grows meanwhile is kept as it was when it was opened.
        """
        if not _ID.match(session):
            raise RefusedError("The session's id cannot name anything in the archive; nothing was kept.")
        sources = [(path.name, path), *((f"bases/{base.name}", base) for base in bases)]
        sources += [(name, path.parent / name) for name in beside if _inside(name)]
        if len(sources) > ARCHIVE_FILES_MAX:
            raise RefusedError(f"The session has more than {ARCHIVE_FILES_MAX} files; nothing was kept.")
        written = 0
        kept = []
        for name, source in sources:
            try:
                file, cost = self._keep_file(name, source)
            except FileNotFoundError:
                if source == path:
                    raise
                continue
            kept.append(file)
            written += cost
        value: codec.Value = {
            "version": _VERSION,
            "harness": harness.value,
            "id": session,
            "source": os.fsdecode(os.fsencode(path)).encode("utf-8", "replace").decode(),
            "files": [[f.path, f.size, f.mtime_ns, f.sha256, list(f.pieces)] for f in kept],
        }
        raw = codec.encode(value)
        name = hashlib.sha256(raw).hexdigest()
        same = self._same_content(harness, session, kept)
        if same is not None:
            return Kept(original=same, new=False, written=written)
        written += self._put(name, raw)
        index = private_folder(private_folder(self.folder / "sessions") / harness.value) / session
        before = index.read_bytes() if index.exists() else b""
        files.replace(index, [before, name.encode() + b"\n"])
        return Kept(original=self.original(name), new=True, written=written)

    def sessions(self) -> Iterator[tuple[Harness, str]]:
        """All sessions of which something is kept."""
        for harness in Harness:
            with contextlib.suppress(FileNotFoundError):
                for entry in sorted((self.folder / "sessions" / harness.value).iterdir()):
                    if _ID.match(entry.name):
                        yield harness, entry.name

    def originals(self, harness: Harness, session: str) -> list[Original]:
        """The originals of a session, oldest first."""
        if not _ID.match(session):
            return []
        try:
            names = (self.folder / "sessions" / harness.value / session).read_text().split()
        except FileNotFoundError:
            return []
        return [self.original(name) for name in names]

    def original(self, name: str) -> Original:
        """The original of that name. Raises ArchiveError."""
        try:
            form = msgspec.convert(codec.decode(self._get(name)), type=_Form)
        except (FormatError, msgspec.ValidationError) as error:
            raise ArchiveError(f"The original {name[:16]} in the archive is damaged.") from error
        if form.version != _VERSION:
            raise ArchiveError("The original was kept by a newer hhd; upgrade to read it.")
        kept = tuple(
            KeptFile(path=path, size=size, mtime_ns=mtime, sha256=digest, pieces=tuple(pieces))
            for path, size, mtime, digest, pieces in form.files
        )
        if not kept or not all(_inside(file.path) for file in kept):
            raise ArchiveError("An original in the archive names a place outside its own folder.")
        return Original(name=name, harness=Harness(form.harness), id=form.id, source=form.source, files=kept)

    def read(self, file: KeptFile) -> Iterator[bytes]:
        """The bytes of a kept file, piece by piece. Raises ArchiveError if they are not what was kept."""
        whole = hashlib.sha256()
        size = 0
        for piece in file.pieces:
            raw = self._get(piece.hex())
            whole.update(raw)
            size += len(raw)
            yield raw
        if whole.digest() != file.sha256 or size != file.size:
            raise ArchiveError(f"The kept file {PurePosixPath(file.path).name} is damaged.")

    def restore(self, original: Original, folder: Path) -> list[Path]:
        """Write the files of `original` below `folder`, where none of them may exist. Return where they are."""
        targets = [folder / file.path for file in original.files]
        for target in targets:
            if target.exists() or target.is_symlink():
                raise RefusedError(f"{target} exists; nothing was written.")
        for file, target in zip(original.files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.replace(target, list(self.read(file)))
            os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
        return targets

    def check(self) -> Iterator[str]:
        """Read everything that is named; one sentence for each damage."""
        for harness, session in self.sessions():
            try:
                for original in self.originals(harness, session):
                    for file in original.files:
                        for _ in self.read(file):
                            pass
            except ArchiveError as error:
                yield f"{harness.value} {session}: {error}"

    def _keep_file(self, name: str, path: Path) -> tuple[KeptFile, int]:
        written = 0
        pieces: list[bytes] = []
        whole = hashlib.sha256()
        with Source(path, packed=True) as source:
            for begin in range(0, source.end, ARCHIVE_PIECE_BYTES):
                raw = source.read(begin, min(ARCHIVE_PIECE_BYTES, source.end - begin))
                whole.update(raw)
                piece = hashlib.sha256(raw)
                written += self._put(piece.hexdigest(), raw)
                pieces.append(piece.digest())
            source.verify()
            kept = KeptFile(
                path=name,
                size=source.end,
                mtime_ns=source.mtime_ns,
                sha256=whole.digest(),
                pieces=tuple(pieces),
            )
        return kept, written

    def _same_content(self, harness: Harness, session: str, kept: list[KeptFile]) -> Original | None:
        known = self.originals(harness, session)
        if known and [(f.path, f.sha256) for f in known[-1].files] == [(f.path, f.sha256) for f in kept]:
            return known[-1]
        return None

    def _place(self, name: str) -> Path:
        if not _NAME.match(name):
            raise ArchiveError("The archive names an object that cannot be.")
        return self.folder / "objects" / name[:2] / name

    def _put(self, name: str, raw: bytes) -> int:
        place = self._place(name)
        if place.exists():
            return 0
        private_folder(private_folder(self.folder / "objects") / name[:2])
        packed = zstandard.ZstdCompressor(level=3).compress(raw)
        return files.replace(place, [packed])

    def _get(self, name: str) -> bytes:
        try:
            packed = self._place(name).read_bytes()
            size = zstandard.frame_content_size(packed)
            if not 0 <= size <= 64 * ARCHIVE_PIECE_BYTES:
                raise ArchiveError(f"The object {name[:16]} in the archive is damaged.")
            raw = zstandard.ZstdDecompressor().decompress(packed)
        except FileNotFoundError:
            raise ArchiveError(f"The object {name[:16]} is missing from the archive.") from None
        except zstandard.ZstdError as error:
            raise ArchiveError(f"The object {name[:16]} in the archive is damaged.") from error
        if hashlib.sha256(raw).hexdigest() != name:
            raise ArchiveError(f"The object {name[:16]} in the archive is damaged.")
        return raw


def _inside(name: str) -> bool:
    parts = PurePosixPath(name)
    return bool(name) and not parts.is_absolute() and ".." not in parts.parts and "\x00" not in name
