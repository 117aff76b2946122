"""Whether the names of a workspace fit a file system: two that it takes for one cannot both arrive.

What a file system does with case and Unicode forms is asked of itself, in the folder that will be written to: a probe
is made under one spelling and looked for under another. One file system may fold in one folder and not in the next.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hhd.base.beneath import NEW, stat_at
from hhd_protocol.errors import FormatError

_PROBE = "hhd-probe-{}-a\u00e9"
"""Its decomposed form and its capitals are other names wherever names are bytes."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """What a folder's file system takes for the same: names that differ in case, or in Unicode form."""

    case: bool
    form: bool

    def key(self, name: bytes) -> bytes:
        """What all names share that the file system takes for `name`."""
        if not (self.case or self.form) or (name.isascii() and not self.case):
            return name
        text = name.decode("utf-8", "surrogateescape")
        if self.form:
            text = unicodedata.normalize("NFC", text)
        if self.case:
            text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
        return text.encode("utf-8", "surrogateescape")


def probe(folder: Path) -> Fold:
    """Ask the file system of `folder`, which is ours to write to. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    name = _PROBE.format(os.urandom(6).hex())
    try:
        os.close(os.open(name, NEW, 0o600, dir_fd=fd))
        try:
            return Fold(
                case=stat_at(name.upper(), fd) is not None,
                form=stat_at(unicodedata.normalize("NFD", name), fd) is not None,
            )
        finally:
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)


def insist_on_distinct(paths: Iterable[bytes], fold: Fold) -> None:
    """Raise FormatError if `fold` takes two different paths, or two folders of them, for one."""
    if not (fold.case or fold.form):
        return
    seen: dict[bytes, bytes] = {}
    for path in paths:
        at = len(path)
        while at > 0:
            part = path[:at]
            key = b"/".join(fold.key(name) for name in part.split(b"/"))
            known = seen.setdefault(key, part)
            if known != part:
                shown = " and ".join(repr(os.fsdecode(one)) for one in (known, part))
                raise FormatError(f"{shown} are one name on the file system of the target")
            at = path.rfind(b"/", 0, at)
