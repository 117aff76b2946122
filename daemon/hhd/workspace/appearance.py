"""What a folder looks like without a file of it being read: whether it may differ from its last capture.

Every name below it, what `lstat` says of what is no folder, and the same of what git keeps beside its objects and logs:
one digest. Two that are equal, the first taken before a capture, mean that the capture still stands. None says that a
look cannot tell, and that a capture has to be taken: something changed within a tick of the file system's clock, there
is a repository inside, it cannot be read, or it is so large that git, which caches, is as quick.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from hhd.base.beneath import LOOK
from hhd.base.errors import UserError
from hhd.base.files import open_plain
from hhd.workspace.capture import own_below
from hhd.workspace.memory import RACY_NS, Stamp, stamp_of
from hhd.workspace.place import Place, find
from hhd.workspace.walk import open_below

THINGS_MAX = 4_000
"""Names in a repository and its `.git`: for more, a capture costs about one `git status`, and a walk more."""

PLAIN_THINGS_MAX = 200_000
"""In a folder that is no repository, whose capture is a walk too."""

TICK_NS = 100_000_000
"""Of file systems that keep parts of a second: they count in hundredths at the coarsest, and the rest is margin."""

_HUNDREDTH_NS = 10_000_000

_WITHOUT = frozenset((b"objects", b"logs", b"hooks", b"worktrees"))
"""In a folder of git's: what says nothing of the working tree, or only of others."""

_SETTINGS = ("~/.gitconfig", "/etc/gitconfig", "/etc/gitattributes")
_SETTINGS_BELOW_CONFIG = ("git/config", "git/ignore", "git/attributes")


_INDEX_HEAD = struct.Struct(">4sII")


class _CannotTell(Exception):
    """Only a capture can."""


def appearance(folder: Path) -> bytes | None:
    """Return the digest of what `folder`, or the repository that it lies in, looks like; None: a look cannot tell."""
    now_ns = time.time_ns()
    try:
        folder = folder.resolve(strict=True)
        place = find(folder)
        top = folder if place is None else place.top
        digest = sha256(repr(place).encode("utf-8", "surrogateescape"))
        for line in _lines(top, place, now_ns):
            digest.update(line)
    except (_CannotTell, OSError, UserError):
        return None
    return digest.digest()


def _lines(top: Path, place: Place | None, now_ns: int) -> Iterator[bytes]:
    if place is not None and _tracked(place) > THINGS_MAX:
        raise _CannotTell  # Before the first name is looked at.
    left = [PLAIN_THINGS_MAX if place is None else THINGS_MAX]
    ours = {one + b"/" for one in own_below(top)}
    yield from _walked(top, frozenset(), ours, left, now_ns, is_git=False)
    for git in () if place is None else dict.fromkeys((place.git_dir, place.common)):
        yield os.fsencode(git) + b"\0"
        yield from _walked(git, _WITHOUT, set(), left, now_ns, is_git=True)
    if place is not None:
        yield from _settings()


def _tracked(place: Place) -> int:
    """How many files the index names, as its head says; 0 where there is none, or it is none."""
    try:
        with open_plain(place.git_dir / "index") as opened:
            head = opened.read(_INDEX_HEAD.size)
    except FileNotFoundError:
        return 0
    magic, _, count = _INDEX_HEAD.unpack(head.ljust(_INDEX_HEAD.size, b"\0"))
    return int(count) if magic == b"DIRC" else 0


def _walked(
    top: Path, without: frozenset[bytes], skipped: set[bytes], left: list[int], now_ns: int, *, is_git: bool
) -> Iterator[bytes]:
    """A line for each thing below `top`, links not followed; `without`: names at the top that are not looked at."""
    fd = os.open(top, LOOK)
    try:
        waiting = [b""]
        while waiting:
            prefix = waiting.pop()
            here = open_below(fd, prefix)
            try:
                with os.scandir(here) as found:
                    children = sorted(found, key=lambda one: one.name)
                left[0] -= len(children)
                if left[0] < 0:
                    raise _CannotTell
                for child in children:
                    path = prefix + os.fsencode(child.name)
                    if not prefix and path in without:
                        continue
                    if child.name == ".git" and not is_git:
                        if prefix:
                            raise _CannotTell  # What its HEAD stands on may be part of the capture.
                        if child.is_dir(follow_symlinks=False):
                            continue
                    if child.is_dir(follow_symlinks=False):
                        if path + b"/" not in skipped:
                            waiting.append(path + b"/")
                        yield path + b"/\0"
                        continue
                    stamp = stamp_of(child.stat(follow_symlinks=False))
                    if not _is_certain(stamp, now_ns):
                        raise _CannotTell
                    yield b"%s\0%d %d %d %d %o\0" % (path, *stamp)
            finally:
                os.close(here)
    finally:
        os.close(fd)


def _is_certain(stamp: Stamp, now_ns: int) -> bool:
    """Whether nothing can change what looks like this at `now_ns` or later, and leave it looking like this.

    The time of the status counts: the system sets it with every change, and nobody else does.
    """
    changed = stamp[3]
    tick = RACY_NS if changed % _HUNDREDTH_NS == 0 else TICK_NS
    return changed < now_ns - tick


def _settings() -> Iterator[bytes]:
    """The settings of the person and of the system that say what git ignores, and how it reads."""
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    for name in (*_SETTINGS, *(f"{base}/{one}" for one in _SETTINGS_BELOW_CONFIG)):
        try:
            yield repr(stamp_of(os.stat(os.path.expanduser(name)))).encode()
        except FileNotFoundError:
            yield b"-"
