"""Objects that have begun to come from other devices: large ones lie in files, so that no kill costs what came of them.

    whole = begun.add(part, peer)     # None until the last part is here
    begun.came_from(name)             # who gave what is here of it: who is to blame if it is not what it should be
    begun.drop(name)                  # once it is kept, or turned out wrong

What comes is sealed by whoever made it, so it lies here as it came; a file's name is the object's. Every piece stands
behind its length and a checksum. Nothing is promised of a piece to anybody, so none is synced: a killed process loses
what came within the last second at most, and after a power cut the pieces that reached the disk in order are gone on
from. What comes within a second lies in memory alone: it comes in a second again, and most objects are whole by then.
The last piece is never written: with it the object is whole, and goes into the database. Rejected: rows of the
database, where each byte goes through its log a second time, and would be synced with every commit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from hhd.store.errors import FullStoreError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import SYNC_BEGUN_MS_MAX, SYNC_SPOOL_BYTES_MAX
from hhd_protocol.sync.messages import Part
from hhd_protocol.sync.parts import Parts

SMALL_BYTES = 1024 * 1024
"""Up to here an object is put together in memory: four parts are sooner sent again than a file is made."""
UNWRITTEN_SECONDS = 1.0
"""What came of an object is written once its first piece since it was last written is so old."""
FOLDER = "begun"
_HEAD_BYTES, _NAME_BYTES = 8, 32


@dataclass(kw_only=True)
class _File:
    """`size`: of the file; `held`: bytes of the object that are here, None until somebody looked; `givers`: who sent
    them, empty where that is forgotten. `unwritten`: those of the pieces that are not in the file, `since` when."""

    size: int = 0
    held: int | None = None
    unwritten: list[bytes] = field(default_factory=list)
    since: float = 0.0
    givers: set[DeviceId] = field(default_factory=set)
    pieces: list[bytes] = field(default_factory=list)
    """Those that came in this process, if it is all of them: the whole is made of these, and no file is read again."""


class Begun:
    """What has begun to come to one store."""

    def __init__(
        self,
        folder: Path,
        room: Callable[[int], None],
        *,
        now_ms: int,
        bytes_max: int = SYNC_SPOOL_BYTES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: of the store. `room`: raises FullStoreError where so many bytes more are too many.

        `now_ms`: the time of day; what nobody went on with for `SYNC_BEGUN_MS_MAX` is removed. `clock`: seconds.
        """
        self._folder, self._room, self._bytes_max, self._clock = folder / FOLDER, room, bytes_max, clock
        self._small = Parts(bytes_max=bytes_max)
        self._small_from: dict[bytes, set[DeviceId]] = {}
        self._files: dict[bytes, _File] = {}
        """By name; the one that grew last at the end."""
        self._find(now_ms)

    @property
    def in_files(self) -> int:
        """How many objects lie in files, or will."""
        return len(self._files)

    @property
    def held_bytes(self) -> int:
        """How many bytes are held, in memory and in files."""
        return self._small.held_bytes + sum(map(_bytes_of, self._files.values()))

    def begun(self, name: bytes) -> int:
        """How many bytes of it are here."""
        return self._small.begun(name) if name not in self._files else self._held(name)

    def came_from(self, name: bytes) -> Collection[DeviceId]:
        """Who gave what is here of it; empty where some of it came before this process began."""
        file = self._files.get(name)
        return self._small_from.get(name, ()) if file is None else file.givers

    def add(self, part: Part, giver: DeviceId) -> bytes | None:
        """Take in a part; return the whole once it is, None before. What came already is passed over.

        Raises FormatError where a stretch between it and what is here is missing; FullStoreError where there is no
        room.
        """
        if part.total <= SMALL_BYTES and part.name not in self._files:
            self._small_from.setdefault(part.name, set()).add(giver)
            return self._small.add(part)
        held = self._held(part.name)
        if part.offset > held:
            raise FormatError("parts of an object came with a gap between them")
        file = self._files.get(part.name, _File())
        if not held:
            file.givers = {giver}
        elif file.givers:
            file.givers.add(giver)
        fresh = part.content[held - part.offset :]
        if held + len(fresh) >= part.total:
            pieces = file.pieces if _size(file.pieces) == held else [self._pieces(part.name), *file.unwritten]
            return b"".join([*pieces, fresh])
        if fresh:
            self._room(len(fresh))
            self._hold(part.name, file, held, fresh)
        return None

    def write(self) -> None:
        """Write all that lies in memory alone, of objects that are to lie in files."""
        for name, file in self._files.items():
            self._write(name, file)

    def drop(self, name: bytes) -> None:
        """Forget what came of it."""
        self._small.drop(name)
        self._small_from.pop(name, None)
        if self._files.pop(name, None) is not None:
            self._path(name).unlink(missing_ok=True)

    def sweep(self, wanted: Callable[[bytes], bool]) -> None:
        """Drop what is in files and not wanted."""
        for name in [name for name in self._files if not wanted(name)]:
            self.drop(name)

    # Files

    def _path(self, name: bytes) -> Path:
        return self._folder / name.hex()

    def _find(self, now_ms: int) -> None:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for at_s, size, text in sorted((one.stat().st_mtime, one.stat().st_size, one.name) for one in entries):
                if len(text) == 2 * _NAME_BYTES and (name := _unhex(text)) is not None:
                    self._files[name] = _File(size=size)
                    if now_ms - at_s * 1000 > SYNC_BEGUN_MS_MAX:
                        self.drop(name)

    def _held(self, name: bytes) -> int:
        """How many bytes of an object are in its file; looked at where that is not known, and what is torn cut off."""
        file = self._files.get(name)
        if file is None:
            return 0
        if file.held is None:
            with self._path(name).open("r+b") as opened:
                pieces = _sound(opened.read())
                file.held = sum(map(len, pieces))
                file.size = file.held + _HEAD_BYTES * len(pieces)
                opened.truncate(file.size)
        return file.held

    def _pieces(self, name: bytes) -> bytes:
        """All that is in a file."""
        return b"".join(_sound(self._path(name).read_bytes())) if name in self._files else b""

    def _hold(self, name: bytes, file: _File, held: int, content: bytes) -> None:
        """Add a piece; written where those before it waited for long enough."""
        now = self._clock()
        file.since = file.since if file.unwritten else now
        file.unwritten.append(content)
        if now - file.since >= UNWRITTEN_SECONDS:
            try:
                self._write(name, file)
            except BaseException:
                file.unwritten.pop()
                raise
        if _size(file.pieces) == held:
            file.pieces.append(content)
        file.held = held + len(content)
        self._files.pop(name, None)
        self._files[name] = file
        while self.held_bytes - self._small.held_bytes > self._bytes_max and len(self._files) > 1:
            self.drop(next(iter(self._files)))  # Begun anew when it is asked for again.

    def _write(self, name: bytes, file: _File) -> None:
        framed = b"".join(map(_framed, file.unwritten))
        if not framed:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            if not file.size:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                flags |= os.O_TRUNC
            descriptor = os.open(self._path(name), flags, 0o600)
            try:
                _write_at(descriptor, framed, file.size)
            except OSError:
                os.ftruncate(descriptor, file.size)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise FullStoreError("There is no room left for what another device sends.") from error
            raise
        file.size += len(framed)
        file.unwritten = []


def _size(pieces: list[bytes]) -> int:
    return sum(map(len, pieces))


def _bytes_of(file: _File) -> int:
    """How many bytes a file has, or will have."""
    return file.size + sum(len(piece) + _HEAD_BYTES for piece in file.unwritten)


def _framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(4, "big") + zlib.crc32(piece).to_bytes(4, "big") + piece


def _unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _sound(raw: bytes) -> list[bytes]:
    """Return the pieces in a file up to the first that is cut short or otherwise than it was written."""
    found, at = [], 0
    while at + _HEAD_BYTES < len(raw):
        size, check = int.from_bytes(raw[at : at + 4], "big"), int.from_bytes(raw[at + 4 : at + 8], "big")
        at += _HEAD_BYTES
        piece = raw[at : at + size]
        if not size or len(piece) < size or zlib.crc32(piece) != check:
            break
        found.append(piece)
        at += size
    return found


def _write_at(descriptor: int, content: bytes, offset: int) -> None:
    """Write all of it."""
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
