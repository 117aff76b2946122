"""One image object while it is read: its head, and frames as they are decoded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from hhd.store.errors import DamagedStoreError
from hhd_protocol import images
from hhd_protocol.errors import FormatError
from hhd_protocol.images import ImageHead
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import Ref, SealedObject


class Opened:
    """One image object with its head, and frames as they are decoded."""

    __slots__ = ("_ends", "_key", "_sealed", "_slots", "frames", "head", "ref", "wanted")

    def __init__(self, ref: Ref, sealed: SealedObject, key: bytes) -> None:
        self.ref, self._sealed, self._key = ref, sealed, key
        self.head: ImageHead = images.decode_head(sealed.segment(key, 0))
        self.wanted: set[int] = set()
        self.frames: dict[int, memoryview] = {}
        self._slots: dict[int, int] | None = None
        self._ends: list[int] | None = None
        per_segment = self.head.frames_per_segment()
        if sealed.count - 1 != -(-len(self.head.frames) // per_segment):
            raise FormatError("the body of an image object does not have the segments its head names")

    def slot_of(self, page: int) -> int:
        """Return the slot of an own page; raises FormatError if it owns no such page."""
        if self._slots is None:
            self._slots = dict(zip(self.head.pages, range(len(self.head.pages)), strict=True))
        if page not in self._slots:
            raise FormatError("a page is said to be in an object that does not own it")
        return self._slots[page]

    def want(self, slots: Iterable[int]) -> None:
        """Note that these slots will be read."""
        size = self.head.frame_pages
        self.wanted.update({slot // size for slot in slots})

    def undecoded(self) -> set[int]:
        """Return the frames that will be read and are not decoded yet."""
        return self.wanted - self.frames.keys()

    def page(self, slot: int) -> memoryview:
        """Return a page of a decoded frame."""
        frame, within = divmod(slot, self.head.frame_pages)
        return self.frames[frame][within * PAGE_BYTES : (within + 1) * PAGE_BYTES]

    def frame_slots(self, frame: int) -> range:
        """Return the slots of a frame."""
        size = self.head.frame_pages
        return range(frame * size, min(len(self.head.pages), (frame + 1) * size))

    def frame_bases(self, frame: int) -> list[tuple[int, int]]:
        """Return (page, number of the object with its base) for each slot of a frame that has a base."""
        if not self.head.bases:
            return []
        slots = self.frame_slots(frame)
        return [(self.head.pages[slot], self.head.bases[slot]) for slot in slots if self.head.bases[slot]]

    def is_based(self, slot: int) -> bool:
        """Whether the frame of a slot stands behind bases."""
        return bool(self.frame_bases(slot // self.head.frame_pages))

    def body(self, segment: int, frames: Sequence[int]) -> list[memoryview]:
        """Open body `segment` and return its `frames`, still compressed."""
        if self._ends is None:
            self._ends = list(accumulate(self.head.frames, initial=0))
        ends, per_segment = self._ends, self.head.frames_per_segment()
        begin = ends[segment * per_segment]
        body = memoryview(self._sealed.segment(self._key, segment + 1))
        if len(body) != ends[min(len(self.head.frames), (segment + 1) * per_segment)] - begin:
            raise FormatError("a body segment does not have the length of its frames")
        return [body[ends[frame] - begin : ends[frame + 1] - begin] for frame in frames]


def damaged(ref: Ref, error: Exception) -> DamagedStoreError:
    """Return the error that names an object and what is wrong with it."""
    return DamagedStoreError(f"Object {ref.name.hex()[:16]} is damaged: {error}.")


@contextlib.contextmanager
def naming(ref: Ref) -> Iterator[None]:
    """Say of which object it is that something within does not follow the format."""
    try:
        yield
    except FormatError as error:
        raise damaged(ref, error) from error
