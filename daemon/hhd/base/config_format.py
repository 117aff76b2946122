"""Brings a configuration file of an older format to the present one, after a copy of it was made durable."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

from hhd.base import files, log
from hhd.base.errors import RefusedError

Migration = Callable[[str], str]
MIGRATIONS: dict[int, Migration] = {}
"""From format N to N+1: the text of a file, with the comments of its person; the number is changed for it."""

_NUMBER = re.compile(r"^[ \t]*format[ \t]*=[^\n]*$", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def migrated(file: Path, text: str, number: int, wanted: int) -> str:
    """Return the `text` of `file`, which has format `number`, in format `wanted`; the file holds it from then on.

    The copy beside it is called `NAME.format-NUMBER`. Raises RefusedError, with nothing changed.
    """
    new = text
    for step in range(number, wanted):
        if step not in MIGRATIONS:
            raise RefusedError(f"{file} has format {number}, which no hhd has written; correct it or move it away.")
        new = MIGRATIONS[step](new)
    new = _numbered(new, wanted)
    target = file.resolve()  # A link to where a person keeps it stays one.
    try:
        mode = stat.S_IMODE(os.stat(target).st_mode)
        _copied(target, text.encode(), number, mode)
        files.replace(target, [new.encode()], mode=mode)
    except OSError as error:
        raise RefusedError(
            f"{file} has format {number} and cannot be brought to format {wanted} ({error.strerror}); nothing was "
            "changed. Let hhd write there."
        ) from error
    log.warn("config_migrated", format=number)
    return new


def _copied(target: Path, raw: bytes, number: int, mode: int) -> None:
    """Keep a copy under a name that is free; one that says the same is enough."""
    copy, count = target.with_name(f"{target.name}.format-{number}"), 1
    while copy.exists():
        if copy.read_bytes() == raw:
            return
        count += 1
        copy = target.with_name(f"{target.name}.format-{number}.{count}")
    files.create(copy, [raw], mode=mode)


def _numbered(text: str, number: int) -> str:
    table = _TABLE.search(text)
    end = len(text) if table is None else table.start()
    head, count = _NUMBER.subn(f"format = {number}", text[:end], count=1)
    return head + text[end:] if count else f"format = {number}\n{text}"
