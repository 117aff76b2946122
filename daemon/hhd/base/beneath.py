"""What lies below one folder, reached component by component without following a link.

Names are bytes, as the system and git have them. A path is a tuple of names, none of them empty, `.`, `..` or with a
slash or NUL in it; `Below` insists on that itself, so that no caller can forget. Each folder on the way is opened
relative to the one before it with O_NOFOLLOW: a link there ends in `LinkInTheWay`, whatever it leads to.

The folders of the last path stay open, since paths come in order: writing a large tree opens each folder once.
Rejected: openat2 with RESOLVE_BENEATH, which is Linux only and has no binding in Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
"""Opens a folder to go on from; needs no read permission where the system has O_PATH."""
LOOK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY
"""Opens a folder to list or to sync it."""
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Opens a file to read it; a pipe that took its place does not block."""
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Makes a file where there is nothing."""

Parts = tuple[bytes, ...]
"""A path below a folder; no parts mean the folder itself."""

_NOREPLACE, _EXCHANGE = 1, 2
_MAC_SWAP, _MAC_EXCL = 2, 4


class LinkInTheWay(Exception):
    """A component of a path is a link, or no folder; the message is one sentence that names the path."""


def stat_at(name: bytes | str, folder: int) -> os.stat_result | None:
    """What is called `name` in `folder`, links not followed; None where nothing is."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def sync_at(folder: int) -> None:
    """Make creations and removals in `folder`, which may be an O_PATH descriptor, survive a power cut."""
    fd = os.open(".", LOOK, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def parts_of(path: bytes) -> Parts:
    """The parts of a relative path with slashes; raises ValueError for one that is none."""
    parts = tuple(path.split(b"/"))
    insist_on_names(parts)
    return parts


def insist_on_names(parts: Parts) -> None:
    """Raise ValueError unless each part is a name: not empty, no dots alone, no slash, no NUL."""
    for name in parts:
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise ValueError(f"{name!r} is not a file name")


class Below:
    """One folder, held by a descriptor, and what is below it."""

    def __init__(self, folder: Path) -> None:
        """Open `folder`, which the person or hhd chose: links in its own path are theirs. Raises OSError."""
        self.folder = folder
        self.fd = os.open(folder, LOOK & ~os.O_NOFOLLOW)
        self._chain: list[tuple[bytes, int]] = []

    def __enter__(self) -> Below:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give all descriptors back."""
        self.forget()
        os.close(self.fd)

    def forget(self) -> None:
        """Close the folders that were kept open: what is at their paths may be another one by now."""
        while self._chain:
            os.close(self._chain.pop()[1])

    def enter(self, parts: Parts, *, create: bool = False) -> int | None:
        """A descriptor of the folder at `parts`, ours to close; None if it, or one above it, is not there.

        It is good until the next call. `create`: make what is missing, as this user's umask has it. Raises
        LinkInTheWay if one of them is a link or a file, ValueError for parts that are no names, OSError.
        """
        insist_on_names(parts)
        keep = 0
        while keep < min(len(parts), len(self._chain)) and self._chain[keep][0] == parts[keep]:
            keep += 1
        while len(self._chain) > keep:
            os.close(self._chain.pop()[1])
        fd = self._chain[-1][1] if self._chain else self.fd
        for name in parts[keep:]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            try:
                fd = os.open(name, WALK, dir_fd=fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                    path = os.fsdecode(b"/".join(parts))
                    raise LinkInTheWay(f"{path!r} goes through a link, or through a file") from None
                raise
            self._chain.append((name, fd))
        return fd

    def stat(self, parts: Parts) -> os.stat_result | None:
        """What is at `parts`, itself not followed; None where nothing is. Raises as `enter`."""
        if not parts:
            return os.fstat(self.fd)
        parent = self.enter(parts[:-1])
        insist_on_names(parts[-1:])
        return None if parent is None else stat_at(parts[-1], parent)

    def parent(self, parts: Parts, *, create: bool = False) -> int:
        """The folder that holds `parts`; raises FileNotFoundError if it is not there, else as `enter`."""
        insist_on_names(parts[-1:])
        found = self.enter(parts[:-1], create=create)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(b"/".join(parts[:-1])))
        return found

    def create(self, parts: Parts, mode: int) -> int:
        """A descriptor to write the new file at `parts`, whose folder is there. Raises FileExistsError, as `parent`."""
        return os.open(parts[-1], NEW, mode, dir_fd=self.parent(parts))

    def open(self, parts: Parts) -> int:
        """A descriptor to read what is at `parts`, never through a link. Raises as `parent`, and OSError."""
        return os.open(parts[-1], READ, dir_fd=self.parent(parts))

    def link(self, parts: Parts, target: bytes) -> None:
        """Make a symbolic link at `parts`; nobody follows it here. Raises FileExistsError, as `parent`."""
        os.symlink(target, parts[-1], dir_fd=self.parent(parts))

    def read_link(self, parts: Parts) -> bytes:
        """Where the link at `parts` leads. Raises as `parent`, and OSError."""
        return os.readlink(parts[-1], dir_fd=self.parent(parts))


def exchange(name: bytes, folder: int, other: bytes, other_folder: int) -> None:
    """Let two things that are there change places in one step; raises OSError (EINVAL, ENOSYS: cannot be done here)."""
    _renamer()(folder, name, other_folder, other, _EXCHANGE)


def rename_new(name: bytes, folder: int, target: bytes, target_folder: int) -> None:
    """Move `name` to a place where nothing is; raises FileExistsError if something is, and OSError.

    Where the system has no call for it, a look precedes the rename: then a file made in between would be lost.
    """
    try:
        _renamer()(folder, name, target_folder, target, _NOREPLACE)
    except OSError as error:
        if error.errno not in CANNOT:
            raise
        if stat_at(target, target_folder) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(target)) from None
        os.rename(name, target, src_dir_fd=folder, dst_dir_fd=target_folder)


CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
"""What a file system or a kernel says that knows neither exchanging nor renaming without replacing."""


@functools.cache
def _renamer() -> Callable[[int, bytes, int, bytes, int], None]:
    library = ctypes.CDLL(None, use_errno=True)
    mac = sys.platform == "darwin"
    call = getattr(library, "renameatx_np" if mac else "renameat2", None)

    def rename(folder: int, name: bytes, other_folder: int, other: bytes, flag: int) -> None:
        if call is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        bits = {_NOREPLACE: _MAC_EXCL, _EXCHANGE: _MAC_SWAP}[flag] if mac else flag
        if call(ctypes.c_int(folder), name, ctypes.c_int(other_folder), other, ctypes.c_uint(bits)):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fsdecode(other))

    return rename


def sync_file_system(fd: int) -> bool:
    """Make everything on the file system of `fd` durable in one call; False where the system has none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
    return call is not None and call(ctypes.c_int(fd)) == 0
