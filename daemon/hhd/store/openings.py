"""Image objects that were opened, with the frames that were decoded, kept for who reads the same ones again and again.

Used by one thread, for one reading after the other: a reading asks for what it wants anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from hhd.store.opened import Opened
from hhd.store.placed import Placed
from hhd_protocol.objects import Ref

OBJECTS_MAX = 1024
FRAMES_BYTES_MAX = 96 * 1024 * 1024
"""Decoded pages kept: some six sessions whose memory is 16 MiB."""


class Openings:
    """The most recent ones, within bounds."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Ref, Opened] = OrderedDict()
        self._sizes: dict[Ref, int] = {}
        self._size = 0
        self._read: set[Ref] = set()
        """Objects of which more may have been decoded since `trim` last looked."""
        self.placed = Placed()

    def get(self, ref: Ref, make: Callable[[], Opened]) -> Opened:
        """Return an object, opened now if it is not kept; nothing of it is wanted yet."""
        found = self._kept.pop(ref, None) or make()
        found.wanted = set()
        self._kept[ref] = found
        self._read.add(ref)
        return found

    def held(self, ref: Ref) -> Opened | None:
        """Return an object if it is kept open."""
        return self._kept.get(ref)

    def put(self, opened: Opened, frames: Sequence[bytes]) -> None:
        """Keep an object that was made here, with what its frames hold, in order."""
        self._kept[opened.ref] = opened
        opened.frames.update((number, memoryview(frame)) for number, frame in enumerate(frames))
        self._read.add(opened.ref)

    def trim(self) -> None:
        """Let go of what is too much, the longest unused first."""
        for ref in self._read & self._kept.keys():
            size = sum(map(len, self._kept[ref].frames.values()))
            self._size += size - self._sizes.get(ref, 0)
            self._sizes[ref] = size
        self._read.clear()
        while self._kept and (self._size > FRAMES_BYTES_MAX or len(self._kept) > OBJECTS_MAX):
            gone, _ = self._kept.popitem(last=False)
            self._size -= self._sizes.pop(gone, 0)
