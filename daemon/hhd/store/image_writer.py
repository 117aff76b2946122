"""Turns a growing line of images into sealed objects, few bytes each.

A line is cut into *eras*. An era begins with a key, an object that owns every page of its image; after it come steps
that own the changed pages only. A step is compressed behind *bases* (the newest version of each page that needs no base
itself) or behind the key's dictionary, whichever is smaller: edited pages shrink to a tenth behind their bases,
rewritten ones gain nothing from them. So restoring reads the key and those steps whose pages are still live.

A new era begins when what its key costs is small against what the steps before it would have cost without bases, so
the store stays below the sum of its parts, and when there is something to gain (many objects to read).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hhd.store.families import Family
from hhd.store.reading import Reader
from hhd_protocol import images
from hhd_protocol.compression import Compressor, compressor
from hhd_protocol.crypto import NONCE_BYTES, content_id, content_ids
from hhd_protocol.ids import PageId
from hhd_protocol.images import ImageHead
from hhd_protocol.limits import IMAGE_OBJECT_PAGES_MAX, OBJECT_REFS_MAX, PAGE_BYTES, SEGMENT_PAGES_MAX
from hhd_protocol.objects import Ref, object_name, seal_object

Buffer = bytes | memoryview
Put = Callable[[Ref, bytes], None]

ERA_STEPS_MIN = 64
"""Fewer objects than this are read in a few milliseconds; a key before then would only cost bytes."""
KEY_SHARE_EDITED = 0.70
"""A key may come when key and steps together stay under this share of the steps without bases."""
KEY_SHARE_REWRITTEN = 0.05
"""... or when it adds no more than this to the steps."""
LIST_STEPS_MIN, LIST_STEPS_MAX, LIST_SHARE = 64, 192, 0.02
"""A list that stands alone comes after 64 steps if it adds at most 2%, and after 192 in any case (CHAIN_MAX is 256)."""
DICTIONARY_FRAME_PAGES = 2
"""Behind a dictionary, frames of 2 pages: restoring opens few dead pages, and they cost 1% more than one frame."""
KEY_OBJECT_PAGES = 2048
"""A key is written in objects of so many pages: another device checks and keeps one while the next is on its way to it,
and what a cut or a crash costs is the one in hand. 8 MiB is what it keeps at once, too (`FLUSH_BYTES` of sync)."""
SOURCE_PAGES_MIN = 64
"""From so many pages on, the dictionary's lie in an object of their own: reading it does not open the whole key."""
DICTIONARY_LEVEL = 2
"""Behind a dictionary, in frames so small, level 3 costs a quarter more time than this and saves 2% of the bytes."""
BASES_WIN = 0.6
"""Behind bases at under this share of what a page costs without them: no need to try the other way."""
BASES_GAIN = 0.8
"""Bases must save a fifth: reading a page behind them means reading all the bases of its frame."""
BASES_REST, BASES_REST_MAX = 8, 64
"""After bases lost, how many steps go without trying them; twice as many each time they lose again."""
IDS_MAX = 65536
"""Page ids remembered for finding equal pages: about 10 MB."""


@dataclass
class _Era:
    """What is known of the era in hand; `source`: the object that its `dictionary` is in."""

    key_bytes: int
    key_pages: int
    source: Ref
    dictionary: bytes
    shared: Compressor | None = None
    steps: int = 0
    stored: int = 0
    plain: float = 0.0
    steps_since_list: int = 0
    stored_since_list: int = 0


class ImageWriter:
    """Writes one line of images. Not durable by itself: the caller's transaction is."""

    def __init__(self, family: Family, put: Put, random: Callable[[int], bytes]) -> None:
        self._family, self._put, self._random = family, put, random
        self.last: Ref | None = None
        self._era: _Era | None = None
        self._places: dict[int, tuple[Ref, int]] = {}
        self._bases: dict[int, tuple[Ref, Buffer]] = {}
        self._ids: dict[PageId, tuple[Ref, int]] = {}
        self._rest, self._rest_next = 0, BASES_REST

    @classmethod
    def resume(
        cls,
        family: Family,
        put: Put,
        random: Callable[[int], bytes],
        *,
        reader: Reader,
        last: Ref,
        size: Callable[[Ref], int],
    ) -> ImageWriter:
        """Return a writer that goes on after the image `last`; `size` gives an object's sealed size."""
        writer = cls(family, put, random)
        writer.last = last
        writer._places, _ = reader.places(last)
        writer._bases = dict(reader.bases(last))
        objects = {ref for ref, _ in writer._places.values()} | {ref for ref, _ in writer._bases.values()}
        heads = {ref: reader.open(ref).head for ref in objects}
        keys = [ref for ref, head in heads.items() if not head.dictionary and not head.bases and head.pages]
        if keys:
            key = max(keys, key=lambda ref: len(heads[ref].pages))
            known = (head.ref(head.dictionary) for head in heads.values() if head.dictionary)
            source = next(known, min(keys, key=lambda ref: (len(heads[ref].pages), ref)))
            _, own = reader.own_pages(source)
            steps = {ref for ref in objects if heads[ref].dictionary or heads[ref].bases}
            era = _Era(
                key_bytes=size(key),
                key_pages=len(heads[key].pages),
                source=source,
                dictionary=b"".join(own[slot] for slot in images.dictionary_slots(len(own))),
                steps=len(steps),
                stored=sum(size(ref) for ref in steps),
                steps_since_list=LIST_STEPS_MAX,
            )
            era.plain = sum(len(heads[ref].pages) for ref in steps) * era.key_bytes / era.key_pages
            writer._era = era
        return writer

    def numbers(self) -> list[int]:
        """Return the numbers of the pages of the last image, ascending."""
        return sorted(self._places)

    def step(
        self,
        changed: Mapping[int, Buffer],
        gone: Sequence[int],
        state: bytes,
        whole: Callable[[], Mapping[int, Buffer]],
    ) -> Ref:
        """Store the next image of the line and return its object.

        `changed`: pages that are new or differ from the image before, by number. `gone`: pages back at the baseline.
        `whole`: gives all pages of the image; called only when a key is due. If the caller's transaction fails, this
        writer must not be used again.
        """
        if self._era is None or len(changed) > IMAGE_OBJECT_PAGES_MAX or self._key_is_due(len(changed)):
            return self._key(whole(), state)
        numbers = sorted(changed)
        pages = [changed[number] for number in numbers]
        ids = content_ids(self._family.page_key, b"page", pages)
        given = {n: self._ids[one] for n, one in zip(numbers, ids, strict=True) if one in self._ids}
        if given:
            kept = [i for i, number in enumerate(numbers) if number not in given]
            numbers, pages, ids = [numbers[i] for i in kept], [pages[i] for i in kept], [ids[i] for i in kept]
            given = {number: place for number, place in given.items() if self._places.get(number) != place}
        before = {n for n in gone if n in self._places}
        for number in before:
            del self._places[number]
            self._bases.pop(number, None)
        return self._step(numbers, pages, ids, given, sorted(before), state)

    def _step(
        self,
        numbers: list[int],
        pages: list[Buffer],
        ids: list[PageId],
        given: dict[int, tuple[Ref, int]],
        gone: list[int],
        state: bytes,
    ) -> Ref:
        era = self._era
        assert era is not None and self.last is not None
        self._places.update(given)
        bases, frames, frame_pages = self._squeeze(era, numbers, pages)
        alone = self._list_is_due(era)
        listed = {n: self._places[n] for n in sorted(self._places.keys() - set(numbers))} if alone else given
        refs = list(
            dict.fromkeys(
                itertools.chain(
                    (ref for ref, _ in bases or () if ref is not None),
                    () if bases else (era.source,) if numbers else (),
                    (ref for ref, _ in listed.values()),
                )
            )
        )
        if len(refs) > OBJECT_REFS_MAX:
            raise AssertionError("an era refers to more objects than a head can")
        number_of = {ref: i + 1 for i, ref in enumerate(refs)}
        places = [listed[n] for n in sorted(listed)]
        head = ImageHead(
            parent=None if alone else self.last,
            refs=refs,
            state=state,
            pages=numbers,
            frame_pages=frame_pages,
            frames=[len(frame) for frame in frames],
            dictionary=0 if bases or not numbers else number_of[era.source],
            bases=[number_of[ref] if ref else 0 for ref, _ in bases] if bases else [],
            gone=[] if alone else gone,
            given=sorted(listed),
            given_objects=[number_of[ref] for ref, _ in places],
            given_slots=[slot for _, slot in places],
            pages_id=content_id(self._family.page_key, b"pages", b"".join(ids)),
        )
        ref, size = self._seal(head, frames)
        for slot, number in enumerate(numbers):
            self._places[number] = ref, slot
            if not bases:
                self._bases[number] = ref, bytes(pages[slot])
        self._remember(ids, ref)
        era.steps += 1
        era.stored += size
        era.plain += len(numbers) * era.key_bytes / era.key_pages
        era.steps_since_list = 0 if alone else era.steps_since_list + 1
        era.stored_since_list = 0 if alone else era.stored_since_list + size
        return ref

    def _squeeze(
        self, era: _Era, numbers: list[int], pages: list[Buffer]
    ) -> tuple[list[tuple[Ref | None, Buffer]] | None, list[bytes], int]:
        """Return (bases or None, frames, pages in a frame), the smaller way of the two."""
        if not pages:
            return None, [], SEGMENT_PAGES_MAX
        nothing: tuple[Ref | None, Buffer] = (None, b"")
        bases: list[tuple[Ref | None, Buffer]] = [self._bases.get(number, nothing) for number in numbers]
        edited: list[bytes] | None = None
        missing = sum(ref is None for ref, _ in bases)
        if self._rest == 0 and missing * 4 <= len(numbers):
            begins = range(0, len(pages), SEGMENT_PAGES_MAX)
            prefixes = (b"".join(content for _, content in bases[i : i + SEGMENT_PAGES_MAX]) for i in begins)
            using = (compressor(prefix, min(len(pages), SEGMENT_PAGES_MAX) * PAGE_BYTES) for prefix in prefixes)
            edited = images.encode_frames(pages, SEGMENT_PAGES_MAX, using)
            usual = len(pages) * era.key_bytes / era.key_pages
            if sum(map(len, edited)) <= BASES_WIN * usual:
                self._rest_next = BASES_REST
                return bases, edited, SEGMENT_PAGES_MAX
        self._rest = max(0, self._rest - 1)
        if era.shared is None:
            era.shared = compressor(era.dictionary, DICTIONARY_FRAME_PAGES * PAGE_BYTES, DICTIONARY_LEVEL)
        fresh = images.encode_frames(pages, DICTIONARY_FRAME_PAGES, itertools.repeat(era.shared))
        if edited is not None and sum(map(len, edited)) < BASES_GAIN * sum(map(len, fresh)):
            return bases, edited, SEGMENT_PAGES_MAX
        if edited is not None:
            self._rest = self._rest_next
            self._rest_next = min(2 * self._rest_next, BASES_REST_MAX)
        return None, fresh, DICTIONARY_FRAME_PAGES

    def _key(self, pages: Mapping[int, Buffer], state: bytes) -> Ref:
        """Begin an era with an image that needs nothing before it."""
        numbers = sorted(pages)
        self._places, self._bases, self._ids, self._rest = {}, {}, {}, 0
        given: dict[int, tuple[Ref, int]] = {}
        source: Ref | None = None
        if len(numbers) >= SOURCE_PAGES_MIN:
            spread = [numbers[slot] for slot in images.dictionary_slots(len(numbers))]
            source, _, _ = self._own(spread, [pages[n] for n in spread], b"", {})
            given.update({number: (source, slot) for slot, number in enumerate(spread)})
            numbers = sorted(set(numbers) - given.keys())
        chunks = [numbers[i : i + KEY_OBJECT_PAGES] for i in range(0, len(numbers), KEY_OBJECT_PAGES)]
        for chunk in chunks[:-1]:
            ref, _, _ = self._own(chunk, [pages[n] for n in chunk], b"", {})
            given.update({number: (ref, slot) for slot, number in enumerate(chunk)})
        last = chunks[-1] if chunks else []
        own = [pages[number] for number in last]
        ref, size, _ = self._own(last, own, state, given)
        first = [pages[number] for number in spread] if source else own
        self._era = _Era(
            key_bytes=max(size, 1),
            key_pages=max(len(own), 1),
            source=source or ref,
            dictionary=b"".join(first[slot] for slot in images.dictionary_slots(len(first))),
        )
        if not own:
            self._era = None  # An empty image is no dictionary and no base: the next one begins again.
        self.last = ref
        return ref

    def _own(
        self, numbers: list[int], pages: list[Buffer], state: bytes, given: dict[int, tuple[Ref, int]]
    ) -> tuple[Ref, int, list[PageId]]:
        shared = compressor(b"", SEGMENT_PAGES_MAX * PAGE_BYTES)
        kept = memoryview(b"".join(pages))  # Bases outlive the caller's buffers, which may change under us.
        pages = [kept[i : i + PAGE_BYTES] for i in range(0, len(kept), PAGE_BYTES)]
        frames = images.encode_frames(pages, SEGMENT_PAGES_MAX, itertools.repeat(shared))
        ids = content_ids(self._family.page_key, b"page", pages)
        refs = list(dict.fromkeys(ref for ref, _ in given.values()))
        number_of = {ref: i + 1 for i, ref in enumerate(refs)}
        places = [given[n] for n in sorted(given)]
        head = ImageHead(
            parent=None,
            refs=refs,
            state=state,
            pages=numbers,
            frame_pages=SEGMENT_PAGES_MAX,
            frames=[len(frame) for frame in frames],
            dictionary=0,
            bases=[],
            gone=[],
            given=sorted(given),
            given_objects=[number_of[ref] for ref, _ in places],
            given_slots=[slot for _, slot in places],
            pages_id=content_id(self._family.page_key, b"pages", b"".join(ids)),
        )
        ref, size = self._seal(head, frames)
        for slot, number in enumerate(numbers):
            self._places[number] = ref, slot
            self._bases[number] = ref, pages[slot]
        self._remember(ids, ref)
        return ref, size, ids

    def _seal(self, head: ImageHead, frames: Sequence[bytes]) -> tuple[Ref, int]:
        segments = [images.encode_head(head), *images.segments_of(frames, head.frames_per_segment())]
        raw = seal_object(self._family.key(self._family.epoch), self._random(NONCE_BYTES), segments)
        ref = Ref(name=object_name(raw), epoch=self._family.epoch)
        self._put(ref, raw)
        self.last = ref
        return ref, len(raw)

    def _remember(self, ids: Sequence[PageId], ref: Ref) -> None:
        if len(self._ids) > IDS_MAX:
            self._ids.clear()
        self._ids.update({one: (ref, slot) for slot, one in enumerate(ids)})

    def _key_is_due(self, changed: int) -> bool:
        era = self._era
        assert era is not None
        expected = len(self._places) * era.key_bytes / era.key_pages
        if self._rest and changed >= len(self._places):
            return True  # Everything was rewritten, and not for the first time: nothing before is of use.
        if era.steps < ERA_STEPS_MIN:
            return False
        return era.stored + expected <= KEY_SHARE_EDITED * era.plain or expected <= KEY_SHARE_REWRITTEN * era.stored

    def _list_is_due(self, era: _Era) -> bool:
        if era.steps_since_list + 1 < LIST_STEPS_MIN:
            return False
        if era.steps_since_list + 1 >= LIST_STEPS_MAX:
            return True
        size = 3 * len(self._places) + 32 * min(era.steps, len(self._places))
        return size <= LIST_SHARE * era.stored_since_list
