"""Who may do what only one may: flock on files.

The kernel holds the lock, so it ends with its process however that ends; what a lock file contains (an old pid,
nothing) means nothing. A forked child gets the descriptor too and would keep the lock after its parent was killed, so
it closes its copies at once; a program that is exec'ed never sees them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.paths import private_folder


class Lock:
    """One held lock; released by `release`, by the end of a `with`, or by the end of the process."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._pid = os.getpid()
        _held.add(self)

    def release(self) -> None:
        """Let go; again does nothing."""
        if self._fd is not None:
            if self._pid == os.getpid():  # In a child this would let go of the parent's lock.
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None

    def share(self) -> None:
        """Let others hold it too, if they share it."""
        assert self._fd is not None
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def write(self, content: bytes) -> None:
        """Let the file say something to who reads it, for as long as the lock is held."""
        assert self._fd is not None
        os.pwrite(self._fd, content, 0)
        os.ftruncate(self._fd, len(content))

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _close_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_close_in_child)


def take(path: Path, *, shared: bool = False, wait: bool = False) -> Lock | None:
    """Return the lock of `path`, or None if another holds it and we do not `wait`.

    Raises RefusedError where the file cannot be made: a read-only place, another's folder, a full disk.
    """
    try:
        private_folder(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RefusedError(f"{path.parent} cannot be written ({error.strerror}); nothing was changed.") from error
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return Lock(fd)


def take_within(path: Path, seconds: float, *, shared: bool = False) -> Lock | None:
    """Return the lock of `path`, or None if another holds it for all of `seconds`."""
    end = time.monotonic() + seconds
    while (lock := take(path, shared=shared)) is None and time.monotonic() < end:
        time.sleep(0.01)
    return lock


def held(path: Path) -> bool:
    """Say whether a process holds the lock of `path` for itself alone; who takes it just then waits a moment."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)  # Also where nothing can be written.
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


def holder(path: Path) -> int | None:
    """Return the process that holds the lock of `path` for itself alone; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError):
        inode = str(os.stat(path).st_ino)
        with open("/proc/locks", encoding="ascii", errors="replace") as table:
            # "1: FLOCK ADVISORY WRITE 1234 fe:00:3989857 0 EOF"; on some disks stat says another device.
            rows = [row.split() for row in table]
        found = {int(row[4]) for row in rows if row[1:4:2] == ["FLOCK", "WRITE"] and row[5].split(":")[-1] == inode}
        if len(found) == 1 and (one := found.pop()) > 0:  # 0: of another namespace of processes.
            return one
    return None
