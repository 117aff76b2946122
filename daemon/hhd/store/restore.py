"""One reading of an image: its objects numbered as they are met, the places of its pages, frames decoded in rounds.

Order: frames that need nothing, then those behind a dictionary, then those behind bases; the format allows no deeper
dependence. Each object is read once, and only segments that hold a wanted page are opened. Small frames are decoded
many in one call, large ones and segments in two threads (libsodium and zstd let go of the interpreter's lock).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

from hhd.store.opened import Opened, damaged
from hhd_protocol import images
from hhd_protocol.compression import Decompressor, decompress_many, decompressor
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import CHAIN_MAX, PAGE_BYTES
from hhd_protocol.objects import Ref

_THREADS = 2
_PARALLEL_PAGES_MIN = 2048
"""Below 8 MiB of pages, threads cost more than they give on a busy machine: starting them, and the interpreter's
lock."""

_SMALL_FRAME_PAGES = 8
"""Frames of so few pages are decoded many at once: one by one, half of the time would be Python's."""

SLOT_BITS = 16


class _Job(NamedTuple):
    """Frames of one segment of an object that are to be decoded."""

    opened: Opened
    segment: int
    frames: list[int]


class _Small(NamedTuple):
    """A small frame that is opened, and waits for others behind the same prefix."""

    opened: Opened
    frame: int
    raw: memoryview


class Restore:
    """Reads one image; `open_object` opens an object with its head. `exact`: also refuse bytes behind a small frame."""

    def __init__(self, open_object: Callable[[Ref], Opened], *, exact: bool = False) -> None:
        self._open, self._exact = open_object, exact
        self.opened: list[Opened] = []
        self._numbers: dict[Ref, int] = {}

    def page(self, place: int) -> memoryview:
        """Return a decoded page: `place` is the number of its object, and its slot in the last 16 bits."""
        return self.opened[place >> SLOT_BITS].page(place & 0xFFFF)

    def number(self, ref: Ref) -> int:
        """Return the number of an object, opening it if it is new."""
        if ref not in self._numbers:
            self._numbers[ref] = len(self.opened)
            self.opened.append(self._open(ref))
        return self._numbers[ref]

    def places(self, ref: Ref) -> tuple[dict[int, int], bytes]:
        """Return the place of each page of the image of `ref`, and its state."""
        links: list[int] = []
        at: Ref | None = ref
        while at is not None:
            if len(links) > CHAIN_MAX or at in self._numbers:
                raise damaged(ref, FormatError("its chain of lists does not end"))
            links.append(self.number(at))
            at = self.opened[links[-1]].head.parent
        places: dict[int, int] = {}
        for number in reversed(links):
            head = self.opened[number].head
            for page in head.gone:
                places.pop(page, None)
            first = number << SLOT_BITS
            places.update(zip(head.pages, range(first, first + len(head.pages)), strict=True))
            if head.given:
                numbers = [0, *(self.number(one) << SLOT_BITS for one in head.refs)]
                for page, index, slot in zip(head.given, head.given_objects, head.given_slots, strict=True):
                    place = numbers[index] | slot
                    if slot >= len(self.opened[place >> SLOT_BITS].head.pages):
                        raise damaged(ref, FormatError("its list names a slot that an object does not have"))
                    places[page] = place
        return places, self.opened[links[0]].head.state

    def bases(self, ref: Ref) -> dict[int, int]:
        """Return the place of each page's newest version in a frame without bases."""
        places, _ = self.places(ref)
        found: dict[int, int] = {}
        for page, place in places.items():
            number, slot = place >> SLOT_BITS, place & 0xFFFF
            opened = self.opened[number]
            if opened.head.pages[slot] != page:
                continue  # Content shared with another page: that object has no earlier version of this one.
            if opened.frame_bases(slot // opened.head.frame_pages):
                base = opened.head.bases[slot]
                if not base:
                    continue
                number = self.number(opened.head.ref(base))
                slot = self.opened[number].slot_of(page)
            found[page] = number << SLOT_BITS | slot
        return found

    def decode(self) -> None:
        """Decode every wanted frame, and whatever those need, in three rounds."""
        based = [(opened, frame) for opened in self.opened for frame in opened.undecoded() if opened.frame_bases(frame)]
        for opened, frame in based:
            for page, base in opened.frame_bases(frame):
                source = self.opened[self.number(opened.head.ref(base))]
                slot = source.slot_of(page)
                if source.is_based(slot):
                    raise damaged(opened.ref, FormatError("a base has a base of its own"))
                source.want((slot,))
        dictionaries: dict[int, bytes] = {}
        behind = [opened for opened in self.opened if opened.head.dictionary and opened.undecoded()]
        for opened in behind:
            source = self.opened[self.number(opened.head.ref(opened.head.dictionary))]
            if source.head.dictionary or source.head.bases or not source.head.pages:
                raise damaged(opened.ref, FormatError("its dictionary is not one"))
            source.want(images.dictionary_slots(len(source.head.pages)))
        plain = [opened for opened in self.opened if not opened.head.dictionary]
        self._run(plain, _needs_no_base, lambda opened, frame: b"")
        for opened in behind:
            number = self._numbers[opened.head.ref(opened.head.dictionary)]
            if number not in dictionaries:
                source = self.opened[number]
                slots = images.dictionary_slots(len(source.head.pages))
                dictionaries[number] = b"".join(source.page(slot) for slot in slots)

        def dictionary(opened: Opened, frame: int) -> bytes:
            if not opened.head.dictionary:
                return b""
            return dictionaries[self._numbers[opened.head.ref(opened.head.dictionary)]]

        def bases(opened: Opened, frame: int) -> bytes:
            found = opened.frame_bases(frame)
            sources = (self.opened[self._numbers[opened.head.ref(base)]] for _, base in found)
            pages = (source.page(source.slot_of(page)) for (page, _), source in zip(found, sources, strict=True))
            return b"".join(chain((dictionary(opened, frame),), pages))

        self._run(behind, _needs_no_base, dictionary)
        self._run([o for o in self.opened if o.head.bases], lambda opened, frame: True, bases)

    def _run(
        self,
        objects: Sequence[Opened],
        ready: Callable[[Opened, int], bool],
        prefix: Callable[[Opened, int], bytes],
    ) -> None:
        """Decode those wanted frames of `objects` that are `ready`, each behind its `prefix`."""
        jobs: list[_Job] = []
        pages = 0
        for opened in objects:
            per_segment = opened.head.frames_per_segment()
            by_segment: dict[int, list[int]] = {}
            for frame in sorted(opened.undecoded()):
                if ready(opened, frame):
                    by_segment.setdefault(frame // per_segment, []).append(frame)
            for segment, frames in by_segment.items():
                jobs.append(_Job(opened, segment, frames))
                pages += len(frames) * opened.head.frame_pages
        waiting: dict[bytes, list[_Small]] = {}
        if pages < _PARALLEL_PAGES_MIN or len(jobs) < 2:
            found = [self._work(jobs, prefix)]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                parts = (jobs[i::_THREADS] for i in range(_THREADS))
                found = list(pool.map(self._work, parts, (prefix,) * _THREADS))
        for small in found:
            for behind, frames_of in small:
                waiting.setdefault(behind, []).extend(frames_of)
        for behind, together in waiting.items():
            _decode_together(behind, together)

    def _work(self, jobs: Sequence[_Job], prefix: Callable[[Opened, int], bytes]) -> list[tuple[bytes, list[_Small]]]:
        """Open the segments of `jobs` and decode their large frames; return the small ones by what they are behind."""
        last: tuple[bytes, Decompressor] | None = None  # A dictionary is the same for many frames.
        small: list[tuple[bytes, list[_Small]]] = []
        for opened, segment, frames in jobs:
            try:
                raws = opened.body(segment, frames)
                if opened.head.frame_pages <= _SMALL_FRAME_PAGES and not opened.head.bases and not self._exact:
                    held = [_Small(opened, frame, raw) for frame, raw in zip(frames, raws, strict=True)]
                    small.append((prefix(opened, frames[0]), held))
                    continue
                for frame, raw in zip(frames, raws, strict=True):
                    behind = prefix(opened, frame)
                    if last is None or last[0] is not behind:
                        last = behind, decompressor(behind)
                    count = len(opened.frame_slots(frame))
                    opened.frames[frame] = memoryview(images.decode_frame(raw, count, last[1]))
            except FormatError as error:
                raise damaged(opened.ref, error) from error
        return small


def _decode_together(behind: bytes, frames: Sequence[_Small]) -> None:
    """Decode small frames behind one prefix; a damaged one is looked for only if there is one."""
    sizes = [len(one.opened.frame_slots(one.frame)) * PAGE_BYTES for one in frames]
    using = decompressor(behind)
    threads = _THREADS if sum(sizes) >= _PARALLEL_PAGES_MIN * PAGE_BYTES else 1
    try:
        contents = decompress_many([one.raw for one in frames], sizes, using, threads=threads)
    except FormatError:
        contents = []
        for one, size in zip(frames, sizes, strict=True):
            try:
                contents.append(memoryview(images.decode_frame(one.raw, size // PAGE_BYTES, using)))
            except FormatError as error:
                raise damaged(one.opened.ref, error) from error
    for one, content in zip(frames, contents, strict=True):
        one.opened.frames[one.frame] = content


def _needs_no_base(opened: Opened, frame: int) -> bool:
    return not opened.frame_bases(frame)
