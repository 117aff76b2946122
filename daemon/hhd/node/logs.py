"""The daemon's log as a person reads it: the last lines, and those that come."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hhd.base import log
from hhd.base.errors import UserError
from hhd.base.log import FILE, FILE_BYTES_MAX, FILES_MAX, LINE_BYTES_MAX, numbered
from hhd.base.paths import data_folder

_READ_BYTES_MAX = 2 * FILE_BYTES_MAX
"""Of one file: what is larger was not written by us."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line: `raw` as it stands, and what it says; a line that is none of ours says only `raw`."""

    raw: str
    at: str = ""
    level: str = ""
    event: str = ""
    fields: tuple[tuple[str, str], ...] = ()


def log_folder() -> Path:
    """Where the log is."""
    return data_folder() / "logs"


@contextlib.contextmanager
def life() -> Iterator[None]:
    """Note how the life of a daemon ends, while it lasts."""
    try:
        yield
    except UserError as error:
        log.warn("refused", exit=int(error.exit), error=type(error).__name__)
        raise
    except Exception as error:
        log.fault("failed", error)
        raise
    log.note("ended")


def last(count: int, *, folder: Path | None = None) -> list[Line]:
    """Return the last `count` lines, oldest first; none where there is no log."""
    return _last(count, (folder or log_folder()) / FILE, None)


def follow(count: int, wait: Callable[[], bool], *, folder: Path | None = None) -> Iterator[Line]:
    """Yield the last `count` lines, then each that comes; between looks `wait` is called, until it returns False."""
    path = (folder or log_folder()) / FILE
    source, begin = _open(path), b""
    try:
        upto = 0 if source is None else os.lseek(source, 0, os.SEEK_END)
        yield from _last(count, path, upto)
        nothing = source is None
        while True:
            if source is None and (source := _open(path)) is not None and nothing:
                for number in range(FILES_MAX - 1, 0, -1):  # All of them came since the first look.
                    yield from _lines(_tail(numbered(path, number), None))[0]
                nothing = False
            if source is not None:
                passed = _age(path, source)  # Before reading: what is written meanwhile is in the file that is open.
                while piece := os.read(source, 1 << 16):
                    found, begin = _lines(begin + piece)
                    yield from found
                if passed:
                    os.close(source)
                    source, begin = None, b""
                    for number in range(passed - 1, 0, -1):  # Those that came and went since the last look.
                        yield from _lines(_tail(numbered(path, number), None))[0]
                    continue
            if not wait():
                return
    finally:
        if source is not None:
            os.close(source)


def _age(path: Path, source: int) -> int:
    """Which number the file that is open has by now; one that is gone has the number behind the last."""
    opened = os.fstat(source)
    for number in range(FILES_MAX):
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(numbered(path, number))
            if (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino):
                return number
    return FILES_MAX


def _last(count: int, path: Path, upto: int | None) -> list[Line]:
    raw = b""
    for number in range(FILES_MAX):
        raw = _tail(numbered(path, number), upto if number == 0 else None) + raw
        if raw.count(b"\n") > count:
            break
    return _lines(raw)[0][-count:] if count else []


def _open(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    return None


def _tail(path: Path, upto: int | None) -> bytes:
    """The end of a file, or of its first `upto` bytes."""
    source = _open(path)
    if source is None:
        return b""
    with os.fdopen(source, "rb") as file:
        end = file.seek(0, os.SEEK_END) if upto is None else upto
        begin = file.seek(max(0, end - _READ_BYTES_MAX))
        return file.read(end - begin)


def _lines(raw: bytes) -> tuple[list[Line], bytes]:
    """The whole lines of `raw`, and what of the next one is there; a line without end is cut."""
    *whole, begin = raw.split(b"\n")
    return [_line(one[:LINE_BYTES_MAX]) for one in whole if one], begin[-LINE_BYTES_MAX:]


def _line(raw: bytes) -> Line:
    text = raw.decode("utf-8", "replace")
    try:
        said = json.loads(text)
        at, level, event = said.pop("at"), said.pop("level"), said.pop("event")
        fields = tuple((str(name), str(value)) for name, value in said.items())
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return Line(raw=text)
    return Line(raw=text, at=str(at), level=str(level), event=str(event), fields=fields)
