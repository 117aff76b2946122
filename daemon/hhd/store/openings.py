"""Image objects that were opened, with the frames that were decoded, kept for who reads the same ones again and again.

Used by one thread, for one reading after the other: a reading asks for what it wants anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from hhd.store.opened import Opened
from hhd_protocol.objects import Ref

OBJECTS_MAX = 1024
FRAMES_BYTES_MAX = 96 * 1024 * 1024
"""Decoded pages kept: some six sessions whose memory is 16 MiB."""


class Openings:
    """The most recent ones, within bounds."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Ref, Opened] = OrderedDict()

    def get(self, ref: Ref, make: Callable[[], Opened]) -> Opened:
        """Return an object, opened now if it is not kept; nothing of it is wanted yet."""
        found = self._kept.pop(ref, None) or make()
        found.wanted = set()
        self._kept[ref] = found
        return found

    def trim(self) -> None:
        """Let go of what is too much, the longest unused first."""
        size = sum(len(frame) for one in self._kept.values() for frame in one.frames.values())
        while self._kept and (size > FRAMES_BYTES_MAX or len(self._kept) > OBJECTS_MAX):
            _, gone = self._kept.popitem(last=False)
            size -= sum(map(len, gone.frames.values()))
