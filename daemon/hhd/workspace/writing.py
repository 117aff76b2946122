"""The things of a state written below a folder of ours: files raw, links as links, nothing through any filter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from hhd.base.beneath import Below, Parts, sync_file_system
from hhd.base.files import sync_file, write_all
from hhd.workspace.errors import HostileCapture
from hhd.workspace.git import Git
from hhd.workspace.objects import Blobs, Get, blobs, pieces
from hhd.workspace.states import MODE_BITS, Node, What
from hhd_protocol.limits import WORKSPACE_TEXT_BYTES_MAX

_SYNCED_ONE_BY_ONE = 64
"""Up to so many files are synced each; for more, one call for the whole file system is the cheaper one."""


def write_nodes(
    below: Below, wanted: Sequence[tuple[Parts, Node]], git: Git | None, get: Get
) -> Iterator[tuple[Parts, os.stat_result]]:
    """Write `wanted` below a folder in which none of it exists yet; yield where each is, and what it looks like.

    Folders above it are made. `git`: the repository that has the blobs. Raises HostileCapture, FormatError for content
    that is not as described, OSError.
    """
    oids = [node.blob for _, node in wanted if node.blob is not None]
    if not oids or git is None:
        yield from _write(below, wanted, None, get)
        return
    with blobs(git, oids) as source:
        yield from _write(below, wanted, source, get)


def _write(
    below: Below, wanted: Sequence[tuple[Parts, Node]], source: Blobs | None, get: Get
) -> Iterator[tuple[Parts, os.stat_result]]:
    one_by_one = len(wanted) <= _SYNCED_ONE_BY_ONE
    for parts, node in wanted:
        if node.what is What.FOLDER:
            below.enter(parts, create=True)
            continue
        folder = below.parent(parts, create=True)
        if node.what is What.LINK:
            below.link(parts, node.target if node.blob is None else _target(node.blob, source))
            yield parts, os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            continue
        yield parts, _write_file(below, parts, node, _chunks(node, source, get), sync=one_by_one)
    if not one_by_one and not sync_file_system(below.fd):
        os.sync()


def _write_file(below: Below, parts: Parts, node: Node, chunks: Iterable[bytes], *, sync: bool) -> os.stat_result:
    fd = below.create(parts, 0o600 if node.mode is not None else 0o777 if node.executable else 0o666)
    try:
        for chunk in chunks:
            write_all(fd, [chunk])
        if node.mode is not None:
            os.fchmod(fd, node.mode)
        if sync:
            sync_file(fd)
        return os.fstat(fd)
    finally:
        os.close(fd)


def _chunks(node: Node, source: Blobs | None, get: Get) -> Iterator[bytes]:
    if node.blob is None:
        assert node.content is not None
        return pieces(node.content, get)
    if source is None:
        raise HostileCapture("The capture names files of a commit, but no repository.")
    return source.next(node.blob)[1]


def _target(blob: bytes, source: Blobs | None) -> bytes:
    if source is None:
        raise HostileCapture("The capture names files of a commit, but no repository.")
    size, chunks = source.next(blob)
    if not 0 < size <= WORKSPACE_TEXT_BYTES_MAX:
        raise HostileCapture("A symbolic link of the commit has no target, or one that is too long.")
    target = b"".join(chunks)
    if b"\0" in target:
        raise HostileCapture("The target of a symbolic link holds a NUL byte.")
    return target


def same_file(found: os.stat_result, node: Node) -> bool:
    """Whether kind and mode of what is there are those of `node`; for the bytes, read it."""
    if node.what is What.LINK:
        return stat.S_ISLNK(found.st_mode)
    if node.what is What.FOLDER:
        return stat.S_ISDIR(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        return False
    if node.mode is not None:
        return stat.S_IMODE(found.st_mode) & MODE_BITS == node.mode
    return bool(found.st_mode & 0o100) == node.executable
