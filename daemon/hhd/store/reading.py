"""Opens sealed objects of one family and reads images and logs out of them.

Restoring reads each object once, opens only the segments that hold a wanted page, and decodes frames in two threads
(libsodium and zstd let go of the interpreter's lock). Order: frames that need nothing, then those behind a dictionary,
then those behind bases; the format allows no deeper dependence.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate, chain

from hhd.store.closure import Closure, Head
from hhd.store.errors import DamagedStoreError, ThinnedError
from hhd.store.families import Family
from hhd_protocol import images, logs, pieces
from hhd_protocol.compression import Decompressor, decompressor
from hhd_protocol.crypto import content_id
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.images import ImageHead
from hhd_protocol.limits import CHAIN_MAX, PAGE_BYTES
from hhd_protocol.objects import Ref, SealedObject

_THREADS = 2
_PARALLEL_PAGES_MIN = 2048
"""Below 8 MiB of pages, threads cost more than they give on a busy machine: starting them, and the "
"interpreter's lock."""

_SLOT_BITS = 16


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image as stored: `numbers` of its pages, ascending, and `pages`, one buffer each; `state` beside them."""

    numbers: Sequence[int]
    pages: Sequence[memoryview]
    state: bytes


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

    def decode(self, segment: int, frames: Sequence[int], using: Callable[[int], Decompressor]) -> None:
        """Open body `segment` and decode its `frames`, each with the decompressor that `using` returns."""
        if self._ends is None:
            self._ends = list(accumulate(self.head.frames, initial=0))
        per_segment = self.head.frames_per_segment()
        begin = self._ends[segment * per_segment]
        end = self._ends[min(len(self.head.frames), (segment + 1) * per_segment)]
        body = self._sealed.segment(self._key, segment + 1)
        if len(body) != end - begin:
            raise FormatError("a body segment does not have the length of its frames")
        for frame in frames:
            raw = body[self._ends[frame] - begin : self._ends[frame + 1] - begin]
            pages = len(self.frame_slots(frame))
            self.frames[frame] = memoryview(images.decode_frame(raw, pages, using(frame)))


@dataclass
class _Work:
    """What one restore gathers: objects numbered as they are met, and what is wanted of each."""

    opened: list[Opened] = field(default_factory=list)
    number: dict[Ref, int] = field(default_factory=dict)


class Reader:
    """Reads objects of one family."""

    def __init__(self, family: Family, fetch: Callable[[Ref], bytes | None]) -> None:
        self._family, self._fetch = family, fetch

    def sealed(self, ref: Ref) -> SealedObject:
        """Return an object; raises ThinnedError if it is not here, DamagedStoreError if it is none."""
        raw = self._fetch(ref)
        if raw is None:
            raise ThinnedError(
                f"Object {ref.name.hex()[:16]} is not in the store: its content was thinned or never came."
            )
        try:
            return SealedObject(raw)
        except FormatError as error:
            raise damaged(ref, error) from error

    def head(self, ref: Ref) -> Head:
        """Return the head of an object of any kind."""
        try:
            return either_head(self.sealed(ref).segment(self._family.key(ref.epoch), 0))
        except FormatError as error:
            raise damaged(ref, error) from error

    def needs(self, refs: Iterable[Ref]) -> set[Ref]:
        """Return every object that reading these images, logs and captures takes."""
        closure = Closure(self.head)
        closure.add(refs)
        return closure.needed

    # Images

    def open(self, ref: Ref) -> Opened:
        """Return an image object with its head opened."""
        try:
            return Opened(ref, self.sealed(ref), self._family.key(ref.epoch))
        except FormatError as error:
            raise damaged(ref, error) from error

    def image(self, ref: Ref) -> Image:
        """Return the image of an object, whole."""
        work = _Work()
        with _naming(ref):
            places, state = self._places(work, ref)
            numbers = sorted(places)
            wanted: list[list[int]] = [[] for _ in work.opened]
            for page in numbers:
                place = places[page]
                wanted[place >> _SLOT_BITS].append(place & 0xFFFF)
            for opened, slots in zip(list(work.opened), wanted, strict=True):
                opened.want(slots)
            self._decode(work)
        pages = [work.opened[places[page] >> _SLOT_BITS].page(places[page] & 0xFFFF) for page in numbers]
        return Image(numbers=numbers, pages=pages, state=state)

    def places(self, ref: Ref) -> tuple[dict[int, tuple[Ref, int]], bytes]:
        """Return the place of each page of an image, and its state, without reading a page."""
        work = _Work()
        with _naming(ref):
            places, state = self._places(work, ref)
        return {page: (work.opened[place >> _SLOT_BITS].ref, place & 0xFFFF) for page, place in places.items()}, state

    def bases(self, ref: Ref) -> dict[int, tuple[Ref, memoryview]]:
        """Return for each page of an image its newest version in a frame without bases: the object, the content."""
        work = _Work()
        with _naming(ref):
            found = self._bases(work, ref)
            for number, slot in found.values():
                work.opened[number].want((slot,))
            self._decode(work)
        return {page: (work.opened[n].ref, work.opened[n].page(slot)) for page, (n, slot) in found.items()}

    def _bases(self, work: _Work, ref: Ref) -> dict[int, tuple[int, int]]:
        places, _ = self._places(work, ref)
        found: dict[int, tuple[int, int]] = {}
        for page, place in places.items():
            number, slot = place >> _SLOT_BITS, place & 0xFFFF
            opened = work.opened[number]
            if opened.head.pages[slot] != page:
                continue  # Content shared with another page: that object has no earlier version of this one.
            if opened.frame_bases(slot // opened.head.frame_pages):
                base = opened.head.bases[slot]
                if not base:
                    continue
                number = self._number(work, opened.head.ref(base))
                slot = work.opened[number].slot_of(page)
            found[page] = number, slot
        return found

    def own_pages(self, ref: Ref) -> tuple[ImageHead, list[memoryview]]:
        """Return the head and own pages of an object; raises DamagedStoreError if they are not those of its id."""
        work = _Work()
        opened = work.opened[self._number(work, ref)]
        opened.want(range(len(opened.head.pages)))
        with _naming(ref):
            self._decode(work)
        pages = [opened.page(slot) for slot in range(len(opened.head.pages))]
        ids = b"".join(content_id(self._family.page_key, b"page", page) for page in pages)
        if content_id(self._family.page_key, b"pages", ids) != opened.head.pages_id:
            raise damaged(ref, FormatError("its pages are not those that its id names"))
        return opened.head, pages

    def _number(self, work: _Work, ref: Ref) -> int:
        if ref not in work.number:
            work.number[ref] = len(work.opened)
            work.opened.append(self.open(ref))
        return work.number[ref]

    def _places(self, work: _Work, ref: Ref) -> tuple[dict[int, int], bytes]:
        links: list[int] = []
        at: Ref | None = ref
        while at is not None:
            if len(links) > CHAIN_MAX or at in work.number:
                raise damaged(ref, FormatError("its chain of lists does not end"))
            links.append(self._number(work, at))
            at = work.opened[links[-1]].head.parent
        places: dict[int, int] = {}
        for number in reversed(links):
            head = work.opened[number].head
            for page in head.gone:
                places.pop(page, None)
            first = number << _SLOT_BITS
            places.update(zip(head.pages, range(first, first + len(head.pages)), strict=True))
            if head.given:
                numbers = [0, *(self._number(work, one) << _SLOT_BITS for one in head.refs)]
                for page, index, slot in zip(head.given, head.given_objects, head.given_slots, strict=True):
                    place = numbers[index] | slot
                    if slot >= len(work.opened[place >> _SLOT_BITS].head.pages):
                        raise damaged(ref, FormatError("its list names a slot that an object does not have"))
                    places[page] = place
        return places, work.opened[links[0]].head.state

    def _decode(self, work: _Work) -> None:
        """Decode every wanted frame, and whatever those need, in three rounds."""
        based = [(opened, frame) for opened in work.opened for frame in opened.wanted if opened.frame_bases(frame)]
        for opened, frame in based:
            for page, base in opened.frame_bases(frame):
                source = work.opened[self._number(work, opened.head.ref(base))]
                source.want((source.slot_of(page),))
        deep = {(id(opened), frame) for opened, frame in based}
        for opened in work.opened:
            for frame in opened.wanted:
                if opened.frame_bases(frame) and (id(opened), frame) not in deep:
                    raise damaged(opened.ref, FormatError("a base has a base of its own"))
        dictionaries: dict[int, bytes] = {}
        behind = [opened for opened in work.opened if opened.head.dictionary and opened.wanted]
        for opened in behind:
            source = work.opened[self._number(work, opened.head.ref(opened.head.dictionary))]
            if source.head.dictionary or source.head.bases or not source.head.pages:
                raise damaged(opened.ref, FormatError("its dictionary is not one"))
            source.want(images.dictionary_slots(len(source.head.pages)))
        plain = [opened for opened in work.opened if not opened.head.dictionary]
        self._run(plain, _needs_no_base, lambda opened, frame: b"")
        for opened in behind:
            number = work.number[opened.head.ref(opened.head.dictionary)]
            if number not in dictionaries:
                source = work.opened[number]
                slots = images.dictionary_slots(len(source.head.pages))
                dictionaries[number] = b"".join(source.page(slot) for slot in slots)

        def dictionary(opened: Opened, frame: int) -> bytes:
            if not opened.head.dictionary:
                return b""
            return dictionaries[work.number[opened.head.ref(opened.head.dictionary)]]

        def bases(opened: Opened, frame: int) -> bytes:
            found = opened.frame_bases(frame)
            sources = (work.opened[work.number[opened.head.ref(base)]] for _, base in found)
            pages = (source.page(source.slot_of(page)) for (page, _), source in zip(found, sources, strict=True))
            return b"".join(chain((dictionary(opened, frame),), pages))

        self._run(behind, _needs_no_base, dictionary)
        self._run([o for o in work.opened if o.head.bases], lambda opened, frame: True, bases)

    def _run(
        self,
        objects: Sequence[Opened],
        ready: Callable[[Opened, int], bool],
        prefix: Callable[[Opened, int], bytes],
    ) -> None:
        """Decode those wanted frames of `objects` that are `ready`, each behind its `prefix`."""
        jobs: list[tuple[Opened, int, list[int]]] = []
        pages = 0
        for opened in objects:
            per_segment = opened.head.frames_per_segment()
            by_segment: dict[int, list[int]] = {}
            for frame in sorted(opened.wanted - opened.frames.keys()):
                if ready(opened, frame):
                    by_segment.setdefault(frame // per_segment, []).append(frame)
            for segment, frames in by_segment.items():
                jobs.append((opened, segment, frames))
                pages += len(frames) * opened.head.frame_pages

        def work(part: Sequence[tuple[Opened, int, list[int]]]) -> None:
            last: tuple[bytes, Decompressor] | None = None  # A dictionary is the same for many frames.

            def using(opened: Opened, frame: int) -> Decompressor:
                nonlocal last
                behind = prefix(opened, frame)
                if last is None or last[0] is not behind:
                    last = behind, decompressor(behind)
                return last[1]

            for opened, segment, frames in part:
                try:
                    opened.decode(segment, frames, functools.partial(using, opened))
                except FormatError as error:
                    raise damaged(opened.ref, error) from error

        if pages < _PARALLEL_PAGES_MIN or len(jobs) < 2:
            work(jobs)
            return
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(work, (jobs[i::_THREADS] for i in range(_THREADS))):
                pass

    # Logs

    def log_head(self, ref: Ref) -> logs.LogHead:
        """Return the head of a log object."""
        try:
            return logs.decode_head(self.sealed(ref).segment(self._family.key(ref.epoch), 0))
        except FormatError as error:
            raise damaged(ref, error) from error

    def log_chunks(self, ref: Ref) -> list[logs.Chunk]:
        """Return the list of a log."""
        parts: list[list[logs.Chunk]] = []
        at: Ref | None = ref
        while at is not None:
            if len(parts) > CHAIN_MAX:
                raise damaged(ref, FormatError("its chain of lists does not end"))
            head = self.log_head(at)
            parts.append(head.chunks(at))
            at = head.parent
        return [chunk for part in reversed(parts) for chunk in part]

    def log(self, ref: Ref, start: int = 0) -> Iterator[bytes]:
        """Yield a log from byte `start` on, a chunk at a time."""
        sealed: SealedObject | None = None
        last: Ref | None = None
        for place in self.log_chunks(ref):
            if start >= place.length:
                start -= place.length
                continue
            if sealed is None or place.object != last:
                sealed, last = self.sealed(place.object), place.object
            yield self._chunk(sealed, place)[start:]
            start = 0

    def log_size(self, ref: Ref) -> int:
        """Return how many bytes a log has."""
        return sum(chunk.length for chunk in self.log_chunks(ref))

    def check_log_object(self, ref: Ref) -> None:
        """Raise DamagedStoreError if the own chunks of a log object are not those of its id."""
        head, sealed = self.log_head(ref), self.sealed(ref)
        if sealed.count - 1 != len(head.lengths):
            raise damaged(ref, FormatError("its body does not have the chunks that its head names"))
        ids = b"".join(
            content_id(self._family.page_key, b"chunk", self._chunk(sealed, logs.Chunk(ref, slot, length)))
            for slot, length in enumerate(head.lengths)
        )
        if content_id(self._family.page_key, b"chunks", ids) != head.chunks_id:
            raise damaged(ref, FormatError("its chunks are not those that its id names"))

    # Pieces of captures

    def pieces_head(self, ref: Ref) -> pieces.PiecesHead:
        """Return the head of an object of pieces."""
        try:
            return pieces.decode_head(self.sealed(ref).segment(self._family.key(ref.epoch), 0))
        except FormatError as error:
            raise damaged(ref, error) from error

    def pieces_frame(self, ref: Ref, frame: int, lengths: Sequence[int]) -> list[bytes]:
        """Return the pieces of one frame, which have `lengths`."""
        try:
            sealed = self.sealed(ref)
            if frame + 1 >= sealed.count:
                raise FormatError("its body does not have the frames that its head names")
            return pieces.decode_frame(sealed.segment(self._family.key(ref.epoch), frame + 1), lengths)
        except FormatError as error:
            raise damaged(ref, error) from error

    def check_pieces_object(self, ref: Ref) -> None:
        """Raise DamagedStoreError if the own pieces of an object are not those of their ids."""
        head, at = self.pieces_head(ref), 0
        if self.sealed(ref).count - 1 != len(head.frames):
            raise damaged(ref, FormatError("its body does not have the frames that its head names"))
        for frame, count in enumerate(head.frames):
            for piece in self.pieces_frame(ref, frame, head.lengths[at : at + count]):
                if content_id(self._family.page_key, b"piece", piece) != head.ids[at]:
                    raise damaged(ref, FormatError("a piece is not the one of its id"))
                at += 1

    def _chunk(self, sealed: SealedObject, place: logs.Chunk) -> bytes:
        try:
            if place.slot + 1 >= sealed.count:
                raise FormatError("a log's list names a chunk that an object does not have")
            segment = sealed.segment(self._family.key(place.object.epoch), place.slot + 1)
            return logs.decode_chunk(segment, place.length)
        except FormatError as error:
            raise damaged(place.object, error) from error


def either_head(segment: bytes) -> Head:
    """Return the head that a first segment holds, of whichever kind; raises FormatError."""
    readers: tuple[Callable[[bytes], Head], ...] = (images.decode_head, logs.decode_head, pieces.decode_head)
    for decode_head in readers[:-1]:
        try:
            return decode_head(segment)
        except NewerVersionError:
            raise
        except FormatError:
            continue
    return readers[-1](segment)


def damaged(ref: Ref, error: Exception) -> DamagedStoreError:
    """Return the error that names an object and what is wrong with it."""
    return DamagedStoreError(f"Object {ref.name.hex()[:16]} is damaged: {error}.")


@contextlib.contextmanager
def _naming(ref: Ref) -> Iterator[None]:
    """Say of which object it is that something within does not follow the format."""
    try:
        yield
    except FormatError as error:
        raise damaged(ref, error) from error


def _needs_no_base(opened: Opened, frame: int) -> bool:
    return not opened.frame_bases(frame)
