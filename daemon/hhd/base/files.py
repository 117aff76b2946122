"""Durable, all-or-nothing file writes: temp file, fsync, rename, fsync of the folder.

A reader sees the previous file or the next one, whole, whatever moment the power goes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

Buffer = bytes | bytearray | memoryview

_PIECES_PER_WRITEV = 512
"""IOV_MAX is 1024 on Linux and macOS; half of it leaves room on others."""


def sync_file(fd: int) -> None:
    """Make what was written to `fd` survive a power cut (macOS: F_FULLFSYNC, fsync alone only reaches the drive)."""
    if sys.platform == "darwin":
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def sync_folder(folder: Path) -> None:
    """Make creations, renames and removals in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(
    path: Path, pieces: Iterable[Buffer], *, mode: int = 0o600, opened: Callable[[int], object] | None = None
) -> int:
    """Make `path` hold exactly `pieces`, in one durable step; return the number of bytes.

    `opened` is called with the descriptor of the new file before it takes the name, to lock it there. Raises OSError,
    in which case `path` is as it was and no temporary file remains.
    """
    temp = temporary(path)
    try:
        total = _write_new(temp, pieces, mode, opened)
        os.rename(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    sync_folder(path.parent)
    return total


def create(path: Path, pieces: Iterable[Buffer], *, mode: int = 0o600) -> int:
    """Make a new file `path` of `pieces`, in one durable step; return the number of bytes.

    Raises FileExistsError, with nothing changed, where there is something of that name; else as `replace`.
    """
    temp = temporary(path)
    try:
        total = _write_new(temp, pieces, mode, None)
        os.link(temp, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temp)
    sync_folder(path.parent)
    return total


def temporary(path: Path) -> Path:
    """A new name beside `path` for a file that is still being written."""
    return path.parent / f"{temporary_start(path)}{os.urandom(6).hex()}.tmp"


def temporary_start(path: Path) -> str:
    """What the names of temporary files for `path` begin with: at most 102 bytes, of the 255 that a name may have."""
    return f".{path.name.encode('utf-8', 'replace')[:100].decode('utf-8', 'ignore')}."


def _write_new(temp: Path, pieces: Iterable[Buffer], mode: int, opened: Callable[[int], object] | None) -> int:
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        if opened is not None:
            opened(fd)
        if isinstance(pieces, Sequence):
            total = write_all(fd, pieces)
        else:  # One at a time: together they may be larger than memory.
            total = sum(write_all(fd, (piece,)) for piece in pieces)
        sync_file(fd)
        return total
    finally:
        os.close(fd)


def open_plain(path: Path) -> BinaryIO:
    """Open `path` to read it; raises OSError, also for what is no file: a pipe there would wait for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "It is no file", str(path))
    return os.fdopen(fd, "rb")


def write_all(fd: int, pieces: Sequence[Buffer]) -> int:
    """Write every byte of `pieces` to `fd`, in order; return how many."""
    queue = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    total = sum(len(piece) for piece in queue)
    while queue:
        done = os.writev(fd, queue[:_PIECES_PER_WRITEV])
        while queue and done >= len(queue[0]):
            done -= len(queue.pop(0))
        if done:
            queue[0] = queue[0][done:]
    return total
