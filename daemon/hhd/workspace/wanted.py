"""What of a folder a person wants captured, and how much of it at most."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from hhd.base.errors import RefusedError
from hhd.base.text import visible_bytes
from hhd_protocol.limits import WORKSPACE_ENTRIES_MAX

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """`named`: paths (files or folders) taken though they are ignored, or for credentials.

    `known`: commits (object ids) that the target has; `published`: it is taken to have what the remotes had when this
    repository last heard of them, where the trees of that are more than `trees_bytes_max` as git packs them. Else they
    come along, so that the target needs no repository. `bytes_max`: of all files read for one capture. `ours`: folders
    of hhd's own, which are never opened, whoever names them: they hold keys, and to close a file of the store undoes
    SQLite's locks on it.
    """

    named: frozenset[bytes] = frozenset()
    known: frozenset[bytes] = frozenset()
    published: bool = False
    trees_bytes_max: int = 0
    bytes_max: int = 2 * 1024**3
    ours: frozenset[bytes] = frozenset()
    entries_max: int = WORKSPACE_ENTRIES_MAX

    def names(self, path: bytes) -> bool:
        """Whether `path`, or a folder that it is in, was named."""
        if not self.named:
            return False
        path = path.rstrip(b"/")
        while path:
            if path in self.named:
                return True
            path = path.rpartition(b"/")[0]
        return False

    def keeps_off(self, path: bytes) -> bool:
        """Whether `path` is a folder of hhd's own, or in one."""
        return any(path == one or path.startswith(one + b"/") for one in self.ours)

    def within(self, folder: bytes) -> bool:
        """Whether something in `folder` (ending in a slash) was named."""
        return any(one.startswith(folder) for one in self.named)

    def insist(self, sizes: Iterable[tuple[int, bytes]]) -> None:
        """Raise RefusedError, naming what is largest, if files of `sizes` and paths are more than is allowed."""
        sizes = list(sizes)
        total = sum(size for size, _ in sizes)
        if total <= self.bytes_max and len(sizes) <= self.entries_max:
            return
        largest = ", ".join(
            f"{visible_bytes(path)} ({_megabytes(size)})" for size, path in heapq.nlargest(_SHOWN, sizes)
        )
        raise RefusedError(
            f"The files to capture are {len(sizes)} with {_megabytes(total)}, more than {self.entries_max} or "
            f"{_megabytes(self.bytes_max)}; the largest: {largest}. Ignore what need not travel (.gitignore, or "
            f".hhdignore in a folder that is no repository), or allow more with --max-bytes. Nothing was captured."
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
