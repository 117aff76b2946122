"""What a device knows of a folder since its last capture; to lose it costs time, nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hhd.workspace.tracked import Tracked

Stamp = tuple[int, int, int, int, int]
"""What a file looks like: inode, size, times of content and of status in nanoseconds, mode."""

RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again within one tick of its file system's clock: the
coarsest still met has two seconds."""


@dataclass
class Memory:
    """`stamps`: what files looked like whose contents the last capture has. `tracked` is what the index with the mark
    `index` says. `raw`: files that hold exactly the bytes of an object, where git may call others unchanged.
    """

    stamps: dict[bytes, Stamp] = field(default_factory=dict)
    index: object = None
    tracked: Tracked | None = None
    raw: dict[bytes, tuple[Stamp, bytes]] = field(default_factory=dict)


def stamp_of(found: os.stat_result) -> Stamp:
    """What a file looks like."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Whether a file that looks like this when it is read at `now_ns` cannot change without looking otherwise."""
    return max(stamp[2], stamp[3]) < now_ns - RACY_NS
