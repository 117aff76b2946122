"""A capsule file on disk: read whole, or held so that this process alone advances it.

Who advances a capsule holds a flock on the very file its name stands for. A save makes a new file, which is locked
before it takes the name, so at every moment the name stands for a file that is locked, and no lock file is left
beside it. Whoever gets the lock of a file then looks whether the name still stands for it; if not, it had opened
the previous one, and begins anew. The kernel frees a dead process's lock: nothing rests on process ids.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hhd.base import files, passing
from hhd.base.errors import RefusedError, RolledBackError, UncertainError
from hhd.node.own import UNKNOWN, Owner, Register
from hhd_protocol import capsule
from hhd_protocol.capsule import Capsule
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import CAPSULE_BYTES_MAX

_OPENS_MAX = 16
"""Saves that may come between our opening a file and locking it; each takes another process a whole step."""

_TEMP_HEX = 12

_DIGEST_AT = 32


def read(path: Path) -> tuple[Capsule, int]:
    """Return the capsule at `path` and the length of its file; a link is followed.

    Raises RefusedError, with one sentence, for anything that is not a capsule.
    """
    raw = read_bytes(path)
    return decode(raw, path), len(raw)


def read_bytes(path: Path) -> bytes:
    """Return the file at `path`, at most as long as a capsule may be; a link is followed."""
    fd = _open(path, follow=True)
    try:
        return _read(fd, path)
    finally:
        os.close(fd)


def is_sealed(path: Path) -> bool:
    """Whether the file at `path` says that it is a sealed capsule; raises RefusedError where it cannot be read."""
    fd = _open(path, follow=True)
    try:
        return capsule.is_sealed(os.pread(fd, capsule.HEAD_BYTES, 0))
    except OSError as error:
        raise RefusedError(f"{path} cannot be read ({_reason(error)}).") from error
    finally:
        os.close(fd)


def decode(raw: bytes | memoryview, path: Path) -> Capsule:
    """Return the capsule that `raw`, the file at `path`, is; raises RefusedError, with one sentence."""
    try:
        return capsule.decode(raw)
    except capsule.SealedCapsuleError as error:
        from hhd.node import sealed_file  # A plain capsule needs neither store nor identity.

        raise RefusedError(f"{path} {sealed_file.report(raw, path).sentence}.") from error
    except FormatError as error:
        raise refusal(path, error) from error


def _digest(pieces: Sequence[files.Buffer]) -> bytes:
    """The integrity digest in the head of an encoded capsule: the file's name in the register of own files."""
    return bytes(pieces[0][_DIGEST_AT : _DIGEST_AT + 32])


class CapsuleFile:
    """The file at `path`, locked; `capsule` is what it held when it was opened, `length` how many bytes that were."""

    def __init__(self, path: Path) -> None:
        """Raises RefusedError where it cannot be read, written, or is being advanced by another process."""
        self.path = path
        self._fd = _lock(path)
        try:
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise RefusedError(f"The folder of {path} cannot be written to, so nothing was begun.")
            raw = _read(self._fd, path)
            self.capsule, self.length = decode(raw, path), len(raw)
            self._seen = _marks(os.fstat(self._fd))
            self.owner = Owner(os.pread(self._fd, 32, _DIGEST_AT))
            _sweep(path)
        except BaseException:
            os.close(self._fd)
            raise

    def save(self, value: Capsule) -> int:
        """Make the file hold `value`, durably and whole; return its length.

        Raises RolledBackError, with the file as it was, where there is no room or no right; UncertainError, with
        `value` kept beside it, where somebody else changed the file.
        """
        try:
            pieces = capsule.encode(value)
        except FormatError as error:
            raise RolledBackError(f"{self.path} was left as it was: {error}.") from error
        if not self._is_ours():
            raise UncertainError(self._kept_beside(pieces))
        self.owner.will_save(_digest(pieces))
        held: list[int] = []

        def hold(fd: int) -> None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(os.dup(fd))

        try:
            self.length = files.replace(self.path, pieces, opened=hold)
        except OSError as error:
            for fd in held:
                os.close(fd)
            raise RolledBackError(f"{self.path} could not be saved ({_reason(error)}) and is as it was.") from error
        os.close(self._fd)
        (self._fd,) = held
        self._seen = _marks(os.fstat(self._fd))
        self.capsule = value
        return self.length

    def close(self) -> None:
        """Let others advance it."""
        os.close(self._fd)

    def _is_ours(self) -> bool:
        try:
            found = os.lstat(self.path)
            if _marks(found) == self._seen:
                return True
            # Somebody may only have touched it: each step has a line id of its own.
            return _identity(found) == self._seen[:2] and read(self.path)[0].line == self.capsule.line
        except (OSError, RefusedError):
            return False

    def _kept_beside(self, pieces: Sequence[files.Buffer]) -> str:
        kept = self.path.with_name(f"{self.path.name}.{os.urandom(4).hex()}")
        try:
            files.create(kept, pieces)
        except OSError as error:
            return f"{self.path} was changed by somebody else meanwhile, and this run was lost ({_reason(error)})."
        return (
            f"{self.path} was changed by somebody else meanwhile and left alone; this run is kept in {kept}. "
            f"Compare both with 'hhd capsule info'."
        )


def write_new(path: Path, value: Capsule, *, force: bool = False) -> int:
    """Write `value` to `path`, over something else only with `force`; return the length of the file."""
    try:
        pieces = capsule.encode(value)
    except FormatError as error:
        raise RefusedError(f"No capsule was made: {error}.") from error
    return write_parts(path, pieces, own=True, force=force)


def write_parts(path: Path, pieces: Sequence[files.Buffer], *, own: bool, force: bool = False) -> int:
    """Write an encoded capsule to `path`, as `write_bytes` does; `own`: and note that it was made here."""
    if own:
        with contextlib.suppress(OSError, RefusedError):
            Register().add(_digest(pieces), UNKNOWN)
    return write_bytes(path, pieces, force=force)


def insist_on_new(path: Path, *, force: bool) -> None:
    """Raise RefusedError, before anything is done, where there is something at `path` already and not `force`."""
    if os.path.lexists(path) and not force:
        raise _exists(path)


def _exists(path: Path) -> RefusedError:
    return RefusedError(f"{path} exists and was left as it is; choose another name or add --force.")


def write_bytes(path: Path, pieces: Sequence[files.Buffer], *, force: bool = False) -> int:
    """Write `pieces` to `path`, over a plain file that nobody advances only with `force`."""
    refused = f"{path} was not written"
    counted = passing.counted("writing", sum(map(len, pieces)), passing.cut(pieces)) if passing.is_watched() else pieces
    try:
        if not (force and os.path.lexists(path)):
            return files.create(path, counted)
        fd = _lock(path)
        try:
            return files.replace(path, counted)
        finally:
            os.close(fd)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise RefusedError(f"{refused} ({_reason(error)}).") from error


def _lock(path: Path) -> int:
    """Return a descriptor of the file that `path` stands for, locked."""
    for _ in range(_OPENS_MAX):
        fd = _open(path, follow=False)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if _identity(os.lstat(path)) == _identity(os.fstat(fd)):
                    return fd
        except BlockingIOError:
            os.close(fd)
            break
        except OSError as error:
            os.close(fd)
            raise RefusedError(f"{path} cannot be locked ({_reason(error)}); nothing was changed.") from error
        os.close(fd)
    raise RefusedError(f"{path} is being advanced by another process of hhd; nothing was changed.")


def _open(path: Path, *, follow: bool) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        raise RefusedError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP and path.is_symlink():
            raise RefusedError(f"{path} is a link; name the file it leads to.") from None
        raise RefusedError(f"{path} cannot be read ({_reason(error)}).") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RefusedError(f"{path} is not a plain file.")
    return fd


def _read(fd: int, path: Path) -> bytes:
    left = os.fstat(fd).st_size
    if left > CAPSULE_BYTES_MAX:
        raise RefusedError(f"{path} was refused: it has {left} bytes, more than the {CAPSULE_BYTES_MAX} of a capsule.")
    parts = []
    passing.begin("reading", left)
    try:
        while left and (part := os.read(fd, min(left, passing.PIECE_BYTES))):
            parts.append(part)
            left -= len(part)
            passing.more(len(part))
    except OSError as error:
        raise RefusedError(f"{path} cannot be read ({_reason(error)}).") from error
    return b"".join(parts)


def refusal(path: Path, error: FormatError) -> RefusedError:
    """The sentence for a file that does not follow its spec page."""
    return RefusedError(f"{path} was refused: {error}.")


def _sweep(path: Path) -> None:
    """Remove what killed saves of this very file left behind; the lock of the file is held."""
    start = files.temporary_start(path)
    for name in os.listdir(path.parent):
        if not (name.startswith(start) and name.endswith(".tmp") and len(name) == len(start) + _TEMP_HEX + 4):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(path.parent / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path.parent / name)
            finally:
                os.close(fd)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _marks(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
