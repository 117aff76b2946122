"""A file written aside, checked, and then made visible in one step that never overwrites.

A crash leaves a file named `.hhd-*.tmp`, which no client reads; the next writer in that folder removes those that no
living process holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from hhd.base import files
from hhd.base.errors import RefusedError

_BUFFER_BYTES = 1 << 20


class Aside:
    """A new file in the folder where it will be published; use it as a context."""

    def __init__(self, final: Path) -> None:
        """Raises RefusedError when the folder cannot be made or written to."""
        self.final = final
        try:
            final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(final.parent)
            self.path = final.parent / f".hhd-{secrets.token_hex(6)}.tmp"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise RefusedError(
                f"{final.parent} cannot be written to ({error.strerror}); nothing was changed."
            ) from error
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def write(self, lines: Iterable[bytes]) -> int:
        """Write `lines`, each with a newline, durably; return the number of bytes."""
        buffer = bytearray()
        total = 0
        for line in lines:
            buffer += line
            buffer += b"\n"
            if len(buffer) >= _BUFFER_BYTES:
                total += files.write_all(self._fd, [buffer])
                buffer = bytearray()
        total += files.write_all(self._fd, [buffer])
        files.sync_file(self._fd)
        return total

    def publish(self) -> None:
        """Make the file visible under its name; raises FileExistsError if there is one."""
        os.link(self.path, self.final)
        files.sync_folder(self.final.parent)

    def replace(self, known: os.stat_result) -> None:
        """Put the file in the place of one that we wrote and that nobody has touched since `known` was taken."""
        now = os.stat(self.final)
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (known.st_ino, known.st_size, known.st_mtime_ns):
            raise RefusedError(f"{self.final} was written to by another program meanwhile; nothing was changed.")
        os.rename(self.path, self.final)
        files.sync_folder(self.final.parent)

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.close(self._fd)


def _sweep(folder: Path) -> None:
    for stale in _ours(folder):
        try:
            fd = os.open(stale, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(stale)
        except OSError:
            continue
        finally:
            os.close(fd)


def _ours(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".hhd-") and entry.name.endswith(".tmp") and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
