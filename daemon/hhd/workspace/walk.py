"""Everything below a folder, found without following a link."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hhd.base.beneath import LOOK


@dataclass(frozen=True, kw_only=True)
class Found:
    """One thing; `is_empty`: a folder that holds nothing; `is_special`: a socket, a device, a pipe."""

    path: bytes
    is_folder: bool
    is_empty: bool = False
    is_special: bool = False


def walk(top: int, folder: bytes, skipped: Collection[bytes] = ()) -> Iterator[Found]:
    """Yield `folder` (ending in a slash, relative to the descriptor `top`) and all below it.

    Folders of `skipped` are not looked into, nor those that cannot be read or went away.
    """
    waiting = [folder]
    while waiting:
        prefix = waiting.pop()
        if prefix in skipped:
            continue
        try:
            here = open_below(top, prefix)
        except OSError:
            continue
        try:
            with os.scandir(here) as children:
                found = [_found(prefix, one) for one in children]
        finally:
            os.close(here)
        yield Found(path=prefix.rstrip(b"/"), is_folder=True, is_empty=not found)
        waiting += [one.path + b"/" for one in found if one.is_folder]
        yield from (one for one in found if not one.is_folder)


def _found(prefix: bytes, child: os.DirEntry[str]) -> Found:
    is_folder = child.is_dir(follow_symlinks=False)
    plain = is_folder or child.is_symlink() or child.is_file(follow_symlinks=False)
    return Found(path=prefix + os.fsencode(child.name), is_folder=is_folder, is_special=not plain)


def open_below(top: int, folder: bytes) -> int:
    """A descriptor to list `folder` (empty, or ending in a slash), whose components are no links; raises OSError."""
    fd = os.open(b".", LOOK, dir_fd=top)
    for name in folder.split(b"/")[:-1]:
        try:
            inner = os.open(name, LOOK, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
