"""Originals of native sessions, kept exactly: the session's file, its bases and its side folder, byte for byte.

A file is cut into pieces of 1 MiB named by their SHA-256; since clients only append, a session that grew shares all
but its last piece with what was kept before. An original is a list of files with their pieces, itself such a piece,
kept under the session's label. Where the pieces lie is the business of a shelf (`Shelf`): the sealed store's, outside
of tests.

Pieces are put before the list that names them, each in one durable step, so a power cut leaves at most pieces on no
list. Keeping the same thing twice changes nothing. What is read back is checked against its name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

import msgspec

from hhd.base import files
from hhd.base.errors import RefusedError, UserError
from hhd.native.source import Source
from hhd_protocol import codec
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import ARCHIVE_FILES_MAX, ARCHIVE_PIECE_BYTES
from hhd_protocol.transcript import Harness

_VERSION = 1
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")


class ArchiveError(RefusedError):
    """The archive does not hold what it should; the sentence says what."""


class Shelf(Protocol):
    """Where pieces lie, by SHA-256, and lists of them, by label; what is on no list may be freed while nobody holds it.

    All may raise UserErrors of their own.
    """

    def held(self) -> AbstractContextManager[None]:
        """While this lasts, nothing that was put is freed."""

    def put(self, digest: bytes, raw: bytes) -> int:
        """Keep `raw` durably and return how many bytes that took: none if it was here."""

    def get(self, digest: bytes) -> bytes:
        """Return what was kept."""

    def enter(self, label: str, digest: bytes, needs: Iterable[bytes]) -> None:
        """Keep the list `digest` and the pieces it needs under `label`; again changes nothing."""

    def labelled(self, label: str) -> Sequence[bytes]:
        """Return the lists under `label`, oldest first."""

    def labels(self) -> list[str]:
        """Return all labels."""


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

    @property
    def pieces(self) -> Iterator[bytes]:
        """The names of all its pieces."""
        return (piece for file in self.files for piece in file.pieces)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What keeping did: the original, whether it is new, and how many bytes were written."""

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
    """The archive on one shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def keep(self, harness: Harness, session: str, path: Path, beside: Iterable[str], bases: Iterable[Path]) -> Kept:
        """Keep the session in `path` with the files `beside` it (relative to its folder) and its `bases`.

        Raises OSError, RefusedError. A file that grows meanwhile is kept as it was when it was opened.
        """
        if not _ID.match(session):
            raise RefusedError("The session's id cannot name anything in the archive; nothing was kept.")
        sources = [(path.name, path), *((f"bases/{base.name}", base) for base in bases)]
        sources += [(name, path.parent / name) for name in beside if inside(name)]
        if len(sources) > ARCHIVE_FILES_MAX:
            raise RefusedError(f"The session has more than {ARCHIVE_FILES_MAX} files; nothing was kept.")
        written = 0
        kept = []
        with self._shelf.held():
            for name, source in sources:
                try:
                    file, cost = self._keep_file(name, source)
                except FileNotFoundError:
                    if source == path:
                        raise
                    continue
                kept.append(file)
                written += cost
            same = self._same_content(harness, session, kept)
            if same is not None:
                self.enter(same, encode_original(same))  # Makes it whole if pieces of it had been lost.
                return Kept(original=same, new=False, written=written)
            source_name = os.fsdecode(os.fsencode(path)).encode("utf-8", "replace").decode()
            made = Original(name="", harness=harness, id=session, source=source_name, files=tuple(kept))
            raw = encode_original(made)
            written += self.enter(made, raw)
        return Kept(original=self.original(hashlib.sha256(raw).hexdigest()), new=True, written=written)

    def enter(self, original: Original, raw: bytes) -> int:
        """Keep an original whose pieces are on the shelf, `raw` being its encoding; return the bytes that took."""
        digest = hashlib.sha256(raw).digest()
        written = self._shelf.put(digest, raw)
        self._shelf.enter(f"{original.harness.value}/{original.id}", digest, original.pieces)
        return written

    def sessions(self) -> Iterator[tuple[Harness, str]]:
        """All sessions of which something is kept, by harness and id."""
        found = (label.partition("/")[::2] for label in self._shelf.labels())
        known = {harness.value: harness for harness in Harness}
        order = list(Harness)
        named = ((known[harness], session) for harness, session in found if harness in known)
        yield from sorted(named, key=lambda one: (order.index(one[0]), one[1]))

    def originals(self, harness: Harness, session: str) -> list[Original]:
        """The originals of a session, oldest first."""
        return [self.original(digest.hex()) for digest in self._shelf.labelled(f"{harness.value}/{session}")]

    def original(self, name: str) -> Original:
        """The original of that name. Raises ArchiveError."""
        return decode_original(name, self._shelf.get(bytes.fromhex(name)))

    def read(self, file: KeptFile) -> Iterator[bytes]:
        """The bytes of a kept file, piece by piece. Raises ArchiveError if they are not what was kept."""
        return verified(file, self._shelf.get)

    def restore(self, original: Original, folder: Path) -> list[Path]:
        """Write the files of `original` below `folder`, where none of them may exist. Return where they are."""
        targets = [folder / file.path for file in original.files]
        for target in targets:
            if target.exists() or target.is_symlink():
                raise RefusedError(f"{target} exists; nothing was written.")
        for file, target in zip(original.files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.replace(target, self.read(file))
            os.utime(target, ns=(file.mtime_ns, file.mtime_ns))
        return targets

    def check(self) -> Iterator[str]:
        """Read everything that is named; one sentence for each session with damage."""
        for harness, session in self.sessions():
            try:
                for original in self.originals(harness, session):
                    for file in original.files:
                        for _ in self.read(file):
                            pass
            except UserError as error:
                yield f"{harness.value} {session}: {error}"

    def _keep_file(self, name: str, path: Path) -> tuple[KeptFile, int]:
        written = 0
        pieces: list[bytes] = []
        whole = hashlib.sha256()
        with Source(path, packed=True) as source:
            for begin in range(0, source.end, ARCHIVE_PIECE_BYTES):
                raw = source.read(begin, min(ARCHIVE_PIECE_BYTES, source.end - begin))
                whole.update(raw)
                piece = hashlib.sha256(raw).digest()
                written += self._shelf.put(piece, raw)
                pieces.append(piece)
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
        known = self._shelf.labelled(f"{harness.value}/{session}")
        try:
            last = self.original(known[-1].hex()) if known else None
        except UserError:
            return None  # Damaged: what is kept now stands beside it.
        same = last is not None and [(f.path, f.sha256) for f in last.files] == [(f.path, f.sha256) for f in kept]
        return last if same else None


def verified(file: KeptFile, get: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """The bytes of a kept file whose pieces `get` gives. Raises ArchiveError if they are not what was kept."""
    whole = hashlib.sha256()
    size = 0
    for piece in file.pieces:
        raw = get(piece)
        whole.update(raw)
        size += len(raw)
        yield raw
    if whole.digest() != file.sha256 or size != file.size:
        raise ArchiveError(f"The kept file {PurePosixPath(file.path).name} is damaged.")


def encode_original(original: Original) -> bytes:
    """Return the list of an original; its SHA-256 is the original's name."""
    return codec.encode(
        {
            "version": _VERSION,
            "harness": original.harness.value,
            "id": original.id,
            "source": original.source,
            "files": [[f.path, f.size, f.mtime_ns, f.sha256, list(f.pieces)] for f in original.files],
        }
    )


def decode_original(name: str, raw: bytes) -> Original:
    """Return the original that a list says. Raises ArchiveError."""
    try:
        form = msgspec.convert(codec.decode(raw), type=_Form)
    except (FormatError, msgspec.ValidationError) as error:
        raise ArchiveError(f"The original {name[:16]} in the archive is damaged.") from error
    if form.version != _VERSION:
        raise ArchiveError("The original was kept by a newer hhd; upgrade to read it.")
    kept = tuple(
        KeptFile(path=path, size=size, mtime_ns=mtime, sha256=digest, pieces=tuple(pieces))
        for path, size, mtime, digest, pieces in form.files
    )
    if not kept or not all(inside(file.path) for file in kept):
        raise ArchiveError("An original in the archive names a place outside its own folder.")
    return Original(name=name, harness=Harness(form.harness), id=form.id, source=form.source, files=kept)


def inside(name: str) -> bool:
    """Say whether a relative path stays below the folder it is put to."""
    parts = PurePosixPath(name)
    return bool(name) and not parts.is_absolute() and ".." not in parts.parts and "\x00" not in name
