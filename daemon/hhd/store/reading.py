"""Opens sealed objects of one family and reads images and logs out of them; `restore.py` says how an image is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hhd.store.closure import Closure, Head
from hhd.store.errors import ThinnedError
from hhd.store.families import Family
from hhd.store.opened import Opened, damaged, naming
from hhd.store.openings import Openings
from hhd.store.placed import Place, Placed
from hhd.store.restore import SLOT_BITS, Restore
from hhd_protocol import images, logs, pieces
from hhd_protocol.crypto import content_id, content_ids
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.images import ImageHead
from hhd_protocol.limits import CHAIN_MAX
from hhd_protocol.objects import Ref, SealedObject


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image as stored: `numbers` of its pages, ascending, and `pages`, one buffer each; `state` beside them."""

    numbers: Sequence[int]
    pages: Sequence[memoryview]
    state: bytes


class Reader:
    """Reads objects of one family."""

    def __init__(self, family: Family, fetch: Callable[[Ref], bytes | None], openings: Openings | None = None) -> None:
        """`openings`: where image objects are kept open, for who reads the same ones often."""
        self._family, self._fetch, self._openings = family, fetch, openings

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
        kept = None if self._openings is None else self._openings.held(ref)
        if kept is not None:
            return kept.head
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
        return self._opened(ref) if self._openings is None else self._openings.get(ref, lambda: self._opened(ref))

    def _opened(self, ref: Ref) -> Opened:
        try:
            return Opened(ref, self.sealed(ref), self._family.key(ref.epoch))
        except FormatError as error:
            raise damaged(ref, error) from error

    def image(self, ref: Ref) -> Image:
        """Return the image of an object, whole."""
        restore = Restore(self.open)
        with naming(ref):
            places, state = restore.places(ref)
            numbers = sorted(places)
            wanted: list[list[int]] = [[] for _ in restore.opened]
            for page in numbers:
                place = places[page]
                wanted[place >> SLOT_BITS].append(place & 0xFFFF)
            for opened, slots in zip(list(restore.opened), wanted, strict=True):
                opened.want(slots)
            restore.decode()
        return Image(numbers=numbers, pages=[restore.page(places[page]) for page in numbers], state=state)

    def places(self, ref: Ref) -> tuple[dict[int, tuple[Ref, int]], bytes]:
        """Return the place of each page of an image, and its state, without reading a page."""
        restore = Restore(self.open)
        with naming(ref):
            places, state = restore.places(ref)
        refs = [opened.ref for opened in restore.opened]
        return {page: (refs[place >> SLOT_BITS], place & 0xFFFF) for page, place in places.items()}, state

    def placed(self, ref: Ref) -> Mapping[int, Place]:
        """Return the place of each page of an image; soon where those of its parent were asked for before."""
        placed = Placed() if self._openings is None else self._openings.placed
        with naming(ref):
            return placed.of(ref, self.open)

    def bases(self, ref: Ref) -> dict[int, tuple[Ref, memoryview]]:
        """Return for each page of an image its newest version in a frame without bases: the object, the content."""
        restore = Restore(self.open)
        with naming(ref):
            found = restore.bases(ref)
            for place in found.values():
                restore.opened[place >> SLOT_BITS].want((place & 0xFFFF,))
            restore.decode()
        refs = [opened.ref for opened in restore.opened]
        return {page: (refs[place >> SLOT_BITS], restore.page(place)) for page, place in found.items()}

    def own_pages(self, ref: Ref) -> tuple[ImageHead, list[memoryview]]:
        """Return the head and own pages of an object; raises DamagedStoreError if they are not those of its id."""
        restore = Restore(self.open, exact=True)
        opened = restore.opened[restore.number(ref)]
        opened.want(range(len(opened.head.pages)))
        with naming(ref):
            restore.decode()
        pages = [opened.page(slot) for slot in range(len(opened.head.pages))]
        ids = b"".join(content_ids(self._family.page_key, b"page", pages))
        if content_id(self._family.page_key, b"pages", ids) != opened.head.pages_id:
            raise damaged(ref, FormatError("its pages are not those that its id names"))
        return opened.head, pages

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

    def log(self, ref: Ref, start: int = 0, *, chunks: Sequence[logs.Chunk] | None = None) -> Iterator[bytes]:
        """Yield a log from byte `start` on, a chunk at a time; `chunks`: its list, where that was read already."""
        sealed: SealedObject | None = None
        last: Ref | None = None
        for place in self.log_chunks(ref) if chunks is None else chunks:
            if start >= place.length:
                start -= place.length
                continue
            if sealed is None or place.object != last:
                sealed, last = self.sealed(place.object), place.object
            yield self._chunk(sealed, place)[start:]
            start = 0

    def chunk(self, place: logs.Chunk) -> bytes:
        """Return the bytes of one chunk of a log."""
        return self._chunk(self.sealed(place.object), place)

    def log_size(self, ref: Ref) -> int:
        """Return how many bytes a log has."""
        return sum(chunk.length for chunk in self.log_chunks(ref))

    def check_log_object(self, ref: Ref) -> None:
        """Raise DamagedStoreError if the own chunks of a log object are not those of its id."""
        head, sealed = self.log_head(ref), self.sealed(ref)
        if sealed.count - 1 != len(head.lengths):
            raise damaged(ref, FormatError("its body does not have the chunks that its head names"))
        chunks = (self._chunk(sealed, logs.Chunk(ref, slot, length)) for slot, length in enumerate(head.lengths))
        ids = b"".join(content_ids(self._family.page_key, b"chunk", chunks))
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
