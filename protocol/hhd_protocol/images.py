"""Memory images as sealed objects: a head that lists where pages are, then frames of pages (`store.md`, Images).

An image is the set of 4 KiB pages that differ from its baseline. Its list names a *place* for each page: an object
and a slot in it. An object holds its *own* pages, and a list that either stands alone or changes the list of its
parent. Each frame of own pages is compressed with a prefix: a dictionary, earlier versions of the same pages
(*bases*), or nothing. A base is never itself in a frame with bases, so the depth of decoding is two.

Rejected: trees of page ids (2.5 times the bytes: scattered ids do not compress), the parent's pages as prefix
(restoring would depend on position), one frame for each page (its entropy tables cost a third of the bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.columns import Column, decode_column, decode_rising, encode_column, encode_rising
from hhd_protocol.compression import Compressor, Decompressor, compress, decompress, decompress_exactly
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import (
    IMAGE_OBJECT_PAGES_MAX,
    IMAGE_STATE_BYTES_MAX,
    MEMORY_BYTES_MAX,
    OBJECT_HEAD_BYTES_MAX,
    PAGE_BYTES,
    SEGMENT_PAGES_MAX,
)
from hhd_protocol.objects import Ref, decode_refs, encode_refs

VERSION = 1
KIND = "image"
DICTIONARY_PAGES = 16
_PAGES_MAX = MEMORY_BYTES_MAX // PAGE_BYTES


class Place(NamedTuple):
    """Where the content of one page is: the `slot`-th own page of an object."""

    object: Ref
    slot: int


@dataclass(frozen=True, kw_only=True)
class ImageHead:
    """The first segment of an image object, opened.

    `parent`: the object whose list this one changes, None for a list that stands alone. `refs`: the objects that the
    columns below number from 1. `pages`: numbers of the own pages, ascending; the slot of a page is its position.
    `frame_pages`: own pages in each frame (the last may have fewer). `frames`: compressed length of each frame.
    `dictionary`: 0, or the object whose dictionary is the first part of every prefix. `bases`: empty, or for each slot
    0 or the object that holds the base of that page. `gone`: pages back at the baseline. `given`: pages that other
    objects hold, with `given_objects` and `given_slots`. `pages_id`: content id over the ids of the own pages.
    `state`: what the image carries beside its pages, opaque here.
    """

    parent: Ref | None
    refs: Sequence[Ref]
    state: bytes
    pages: Column
    frame_pages: int
    frames: Column
    dictionary: int
    bases: Column
    gone: Column
    given: Column
    given_objects: Column
    given_slots: Column
    pages_id: PageId

    def frames_per_segment(self) -> int:
        """How many frames one body segment holds (the last may hold fewer)."""
        return SEGMENT_PAGES_MAX // self.frame_pages

    def ref(self, number: int) -> Ref:
        """Return the object that a column numbers `number` (1 is the first)."""
        return self.refs[number - 1]

    def changes(self, own: Ref) -> dict[int, Place]:
        """Return the places this object's list sets; `own` is the reference to this object itself."""
        places = {page: Place(own, slot) for slot, page in enumerate(self.pages)}
        for page, number, slot in zip(self.given, self.given_objects, self.given_slots, strict=True):
            places[page] = Place(self.refs[number - 1], slot)
        return places


def encode_head(head: ImageHead) -> bytes:
    """Return the first segment of an image object: its fields, compressed."""
    fields: list[Value] = [
        VERSION,
        KIND,
        *encode_refs(head.parent, head.refs),
        head.state,
        encode_rising(head.pages),
        head.frame_pages,
        encode_column(head.frames),
        head.dictionary,
        encode_column(head.bases),
        encode_rising(head.gone),
        encode_rising(head.given),
        encode_column(head.given_objects),
        encode_column(head.given_slots),
        head.pages_id,
    ]
    return compress(encode(fields))


def decode_head(raw: bytes) -> ImageHead:
    """Return the head that a first segment holds; raises FormatError on anything `encode_head` would not write."""
    fields = decode(decompress(raw, bytes_max=OBJECT_HEAD_BYTES_MAX), bytes_max=OBJECT_HEAD_BYTES_MAX)
    if not isinstance(fields, list) or len(fields) < 2 or type(fields[0]) is not int or fields[1] != KIND:
        raise FormatError("the object does not hold an image")
    if fields[0] > VERSION:
        raise NewerVersionError("the image is of a newer version than this program knows")
    if fields[0] != VERSION or len(fields) != 17:
        raise FormatError("the head of an image has the wrong number of fields")
    state, frame_pages, dictionary, pages_id = fields[6], fields[8], fields[10], fields[16]
    if not isinstance(state, bytes) or not isinstance(pages_id, bytes) or len(pages_id) != 32:
        raise FormatError("the head of an image has a field of the wrong kind")
    if type(frame_pages) is not int or type(dictionary) is not int:
        raise FormatError("the head of an image has a field of the wrong kind")
    parent, refs = decode_refs(fields[2:6])
    head = ImageHead(
        parent=parent,
        refs=refs,
        state=state,
        pages=decode_rising(fields[7], below=_PAGES_MAX),
        frame_pages=frame_pages,
        frames=decode_column(fields[9]),
        dictionary=dictionary,
        bases=decode_column(fields[11]),
        gone=decode_rising(fields[12], below=_PAGES_MAX),
        given=decode_rising(fields[13], below=_PAGES_MAX),
        given_objects=decode_column(fields[14]),
        given_slots=decode_column(fields[15]),
        pages_id=PageId(pages_id),
    )
    _insist(head)
    return head


def _insist(head: ImageHead) -> None:
    own, refs = len(head.pages), len(head.refs)
    if len(head.state) > IMAGE_STATE_BYTES_MAX or own > IMAGE_OBJECT_PAGES_MAX:
        raise TooLargeError("an image object passes the bounds of its kind")
    if not 1 <= head.frame_pages <= SEGMENT_PAGES_MAX or len(head.frames) != -(-own // head.frame_pages):
        raise FormatError("the frames of an image object do not match its pages")
    if not 0 <= head.dictionary <= refs or len(head.bases) not in (0, own):
        raise FormatError("a prefix of an image object is not one of its objects")
    if max(head.bases, default=0) > refs:
        raise FormatError("a prefix of an image object is not one of its objects")
    if not len(head.given) == len(head.given_objects) == len(head.given_slots):
        raise FormatError("the columns of an image list differ in length")
    if head.given and (min(head.given_objects) < 1 or max(head.given_objects) > refs):
        raise FormatError("an image list names an object that it does not refer to")
    if max(head.given_slots, default=0) >= IMAGE_OBJECT_PAGES_MAX:
        raise FormatError("a slot of an image list passes its bound")
    if head.gone and head.parent is None:
        raise FormatError("a list that stands alone takes pages away")
    if len({*head.pages, *head.given, *head.gone}) != own + len(head.given) + len(head.gone):
        raise FormatError("a page is named twice in one image object")


def encode_frames(
    pages: Sequence[bytes | memoryview], frame_pages: int, compressors: Iterable[Compressor]
) -> list[bytes]:
    """Return own `pages` as frames; `compressors` gives each frame's, in order."""
    begins = range(0, len(pages), frame_pages)
    return [
        using.compress(b"".join(pages[begin : begin + frame_pages]))
        for begin, using in zip(begins, compressors, strict=False)
    ]


def segments_of(frames: Sequence[bytes], frames_per_segment: int) -> list[bytes]:
    """Return `frames` joined into body segments."""
    return [b"".join(frames[begin : begin + frames_per_segment]) for begin in range(0, len(frames), frames_per_segment)]


def decode_frame(frame: bytes | memoryview, pages: int, using: Decompressor) -> bytes:
    """Return the `pages` pages of one frame; raises FormatError if it holds anything else."""
    return decompress_exactly(frame, pages * PAGE_BYTES, using)


def dictionary_slots(own_pages: int) -> list[int]:
    """Return the slots whose pages, joined, are the dictionary of an object with so many own pages."""
    count = min(own_pages, DICTIONARY_PAGES)
    return [i * own_pages // count for i in range(count)]
