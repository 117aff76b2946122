"""What stands in a folder, read as it is: raw bytes, links not followed, never half of a file.

A file is read piece by piece and looked at before and after: one that changed meanwhile is read again, a few times.
What was read before and looks the same is not read again (`Memory`), unless it changed so shortly before that a look
could not tell.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping

from hhd.base.beneath import Below, LinkInTheWay
from hhd.workspace.memory import Memory, Stamp, is_settled, stamp_of
from hhd_protocol.ids import PageId
from hhd_protocol.limits import WORKSPACE_FILE_BYTES_MAX, WORKSPACE_PIECE_BYTES, WORKSPACE_TEXT_BYTES_MAX
from hhd_protocol.workspace import EMPTY, Content, Entry, Kind, LeftOut, Reason
from hhd_protocol.workspace_paths import path_problem

Put = Callable[[bytes], PageId]
_TRIES = 4
"""Readings of a file that changes under them; then it is said that it does."""


class Contents:
    """Reads entries of one folder for one capture."""

    def __init__(
        self,
        below: Below,
        put: Put,
        *,
        before: Mapping[bytes, Entry],
        memory: Memory,
        file_bytes_max: int = WORKSPACE_FILE_BYTES_MAX,
    ) -> None:
        self._below, self._put, self._before, self._memory = below, put, before, memory
        self._file_bytes_max = min(file_bytes_max, WORKSPACE_FILE_BYTES_MAX)
        self.stamps: dict[bytes, Stamp] = {}

    def entry(self, path: bytes, found: os.stat_result | None = None) -> Entry | LeftOut | None:
        """What stands at `path`; None if nothing does, or a folder. `found`: what a look at it just gave."""
        if path_problem(path):
            return LeftOut(path=path, reason=Reason.NAME)
        parts = tuple(path.split(b"/"))
        try:
            found = self._below.stat(parts) if found is None else found
            if found is None or stat.S_ISDIR(found.st_mode):
                return None
            if stat.S_ISLNK(found.st_mode):
                return self._link(path, parts)
            if not stat.S_ISREG(found.st_mode):
                return LeftOut(path=path, reason=Reason.SPECIAL)
            if found.st_size > self._file_bytes_max:
                return LeftOut(path=path, reason=Reason.TOO_LARGE, size=found.st_size)
            return self._file(path, parts, found)
        except (FileNotFoundError, LinkInTheWay):
            return None
        except PermissionError:
            return LeftOut(path=path, reason=Reason.UNREADABLE)

    def _link(self, path: bytes, parts: tuple[bytes, ...]) -> Entry | LeftOut:
        target = self._below.read_link(parts)
        if not 0 < len(target) <= WORKSPACE_TEXT_BYTES_MAX:
            return LeftOut(path=path, reason=Reason.TOO_LARGE, size=len(target))
        return Entry(path=path, kind=Kind.SYMLINK, target=target)

    def _file(self, path: bytes, parts: tuple[bytes, ...], found: os.stat_result) -> Entry | LeftOut:
        stamp = stamp_of(found)
        known = self._before.get(path)
        if known is not None and known.kind is Kind.FILE and self._memory.stamps.get(path) == stamp:
            self.stamps[path] = stamp
            return known
        for _ in range(_TRIES):
            now = time.time_ns()
            fd = self._below.open(parts)
            try:
                first = os.fstat(fd)
                if not stat.S_ISREG(first.st_mode):
                    return LeftOut(path=path, reason=Reason.SPECIAL)
                content = self._read(fd, first.st_size)
                last = os.fstat(fd)
            finally:
                os.close(fd)
            stamp = stamp_of(first)
            if content is None or stamp_of(last) != stamp:
                continue
            if is_settled(stamp, now):
                self.stamps[path] = stamp
            return Entry(path=path, kind=Kind.FILE, mode=stat.S_IMODE(first.st_mode) & 0o777, content=content)
        return LeftOut(path=path, reason=Reason.CHANGING, size=first.st_size)

    def _read(self, fd: int, size: int) -> Content | None:
        """The content of exactly `size` bytes; None if the file has more or fewer by now."""
        pieces, left = [], size
        while left:
            piece = _exactly(fd, min(left, WORKSPACE_PIECE_BYTES))
            if piece is None:
                return None
            pieces.append(self._put(piece))
            left -= len(piece)
        if os.read(fd, 1):
            return None
        return Content(size=size, pieces=tuple(pieces)) if size else EMPTY


def _exactly(fd: int, count: int) -> bytes | None:
    piece = os.read(fd, count)
    if len(piece) == count:
        return piece
    parts = [piece]
    left = count - len(piece)
    while left and parts[-1]:
        parts.append(os.read(fd, left))
        left -= len(parts[-1])
    return None if left else b"".join(parts)
