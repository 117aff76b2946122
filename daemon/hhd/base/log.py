"""The daemon's log: one JSON object a line, of events and numbers, in files of bounded size.

Nothing of what a session says is in it, nor titles, folders, files, keys: whoever helps a person with their daemon may
be shown all of it. So a field has one of few names, each with the form its values have, and a text that is free to hold
anything has no place; of an error its kind is noted and where it was raised, never its words, which name files.

It is this process's: `to` says where it goes; before that, in a command, nothing is noted. A line that cannot be
written (a full disk) is counted, and the count is in the next one: a log must not stop what it tells of.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
import traceback
from pathlib import Path
from typing import Final

from hhd.base.paths import private_folder

FILE = "daemon.jsonl"
FILE_BYTES_MAX = 1024 * 1024
"""Some ten thousand lines: what a person looks through."""
FILES_MAX = 5
"""The one that is written, and those before it; the oldest goes when a new one begins."""

LINE_BYTES_MAX = 4096
"""Written in one go, so that lines of several processes never mix."""

_WORD: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")
_SENTENCE: Final = re.compile(r"[][A-Za-z0-9_ ,.:;()'%+-]{1,200}")
_HEX: Final = re.compile(r"[0-9a-f]{8,64}")
_PLACE: Final = re.compile(r"[\w.<>]+:\d+( [\w.<>]+:\d+)*", re.ASCII)
_ADDRESS: Final = re.compile(r"[0-9A-Za-z.:\[\]%_-]{1,80}")

FIELDS: Final[dict[str, re.Pattern[str] | type]] = {
    "release": _WORD, "verb": _WORD, "part": _WORD, "state": _WORD, "error": _WORD, "device": _WORD, "name": _WORD,
    "session": _HEX, "checkpoint": _HEX, "transfer": _HEX, "why": _SENTENCE, "place": _PLACE, "address": _ADDRESS,
    "process": int, "exit": int, "signal": int, "bytes": int, "count": int, "port": int, "format": int, "lost": int,
    "ms": int, "seconds": float, "ok": bool,
}  # fmt: skip
"""What may stand in a line besides `at`, `level` and `event`. `why` is a sentence of ours, never one that came from
elsewhere; `place` is where in our code; `name` is one of ours, such as a channel's."""

Field = str | int | float | bool

_PLACES_MAX = 3


class Log:
    """The files in one folder; several processes may write to them."""

    def __init__(self, folder: Path, *, bytes_max: int = FILE_BYTES_MAX, files_max: int = FILES_MAX) -> None:
        self._path, self._bytes_max, self._files_max = folder / FILE, bytes_max, files_max
        self._fd: int | None = None
        self._lost = 0

    def write(self, level: str, event: str, fields: dict[str, Field]) -> None:
        """Note a line, or that one was lost."""
        if self._lost:
            fields = {**fields, "lost": self._lost}
        said = {"at": _now(), "level": level, "event": event, **fields}
        raw = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        assert len(raw) <= LINE_BYTES_MAX
        try:
            fd = self._opened(len(raw))
            if os.write(fd, raw) < len(raw):
                os.write(fd, b"\n")  # What fits is no line; what follows begins one.
                raise OSError(errno.ENOSPC, "Half a line")
            self._lost = 0
        except OSError:
            self._lost += 1

    @property
    def lost(self) -> int:
        """How many lines could not be written since the last one that could."""
        return self._lost

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self, more: int) -> int:
        """The file that takes `more` bytes, a new one if they do not fit; raises OSError."""
        if self._fd is not None and not self._is_current(self._fd):
            self.close()
        if self._fd is None:
            self._fd = self._open()
        if os.fstat(self._fd).st_size + more > self._bytes_max:
            self._rotate(more)
            self.close()
            self._fd = self._open()
        return self._fd

    def _open(self) -> int:
        private_folder(self._path.parent)
        return os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
        )

    def _is_current(self, fd: int) -> bool:
        """Whether the name still stands for the open file: another process may have begun a new one."""
        try:
            named, opened = os.lstat(self._path), os.fstat(fd)
        except OSError:
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

    def _rotate(self, more: int) -> None:
        """Give each file the next number; of processes that come here together, the first one does."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            try:
                if os.lstat(self._path).st_size + more <= self._bytes_max:
                    return
            except FileNotFoundError:
                return
            for number in range(self._files_max - 1, 0, -1):
                before = numbered(self._path, number - 1)
                if os.path.lexists(before):
                    os.replace(before, numbered(self._path, number))
        finally:
            os.close(folder)


def numbered(path: Path, number: int) -> Path:
    """The log file of that age: 0 is the one that is written."""
    return path if number == 0 else path.with_name(f"{path.name}.{number}")


_log: Log | None = None


def to(folder: Path | None) -> Log | None:
    """Let what this process notes go to files in `folder` from now on, or nowhere."""
    global _log
    if _log is not None:
        _log.close()
    _log = None if folder is None else Log(folder)
    return _log


def note(event: str, **fields: Field) -> None:
    """Note that something happened: `event` is a word of ours, `fields` are of `FIELDS`."""
    _write("info", event, fields)


def warn(event: str, **fields: Field) -> None:
    """Note something that a person may want to look at."""
    _write("warning", event, fields)


def fault(event: str, error: BaseException, **fields: Field) -> None:
    """Note an error that nobody else will hear of: its kind and where it was raised."""
    number = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    places = _places(error)
    _write("error", event, {
        **fields, "error": number or type(error).__name__, **({"place": places} if places else {}),
    })  # fmt: skip


def _write(level: str, event: str, fields: dict[str, Field]) -> None:
    assert _WORD.fullmatch(event), event
    for name, value in fields.items():
        form = FIELDS[name]
        assert isinstance(value, form) if isinstance(form, type) else form.fullmatch(str(value)), f"{event}: {name}"
    if _log is not None:
        _log.write(level, event, fields)


def _places(error: BaseException) -> str:
    """The innermost places of our own code that an error came through, innermost last."""
    found = [
        f"{module}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (module := str(frame.f_globals.get("__name__", ""))).split(".")[0] in ("hhd", "hhd_protocol")
    ]
    return " ".join(found[-_PLACES_MAX:])


def _now() -> str:
    at = time.time_ns() // 1_000_000
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // 1000)) + f".{at % 1000:03d}Z"
