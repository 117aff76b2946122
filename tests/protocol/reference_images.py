"""Reads images and logs as plainly as the spec says it, slowly: what the store's own reader is held against."""

from __future__ import annotations

from collections.abc import Mapping

import zstandard

from hhd_protocol import images, logs
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import EpochId, ObjectName
from hhd_protocol.limits import PAGE_BYTES
from hhd_protocol.objects import Ref, SealedObject, object_name


class Reference:
    """Objects by name and sealing keys by epoch, read one page at a time."""

    def __init__(self, objects: Mapping[ObjectName, bytes], keys: Mapping[EpochId, bytes], page_key: bytes) -> None:
        self.objects, self.keys, self.page_key = objects, keys, page_key
        self._read: dict[Ref, list[bytes]] = {}

    def segments(self, ref: Ref) -> list[bytes]:
        raw = self.objects[ref.name]
        assert object_name(raw) == ref.name
        sealed = SealedObject(raw)
        return [sealed.segment(self.keys[ref.epoch], i) for i in range(sealed.count)]

    def image(self, ref: Ref) -> dict[int, bytes]:
        head = images.decode_head(self.segments(ref)[0])
        places = {page: (ref, slot) for slot, page in enumerate(head.pages)}
        for page, number, slot in zip(head.given, head.given_objects, head.given_slots, strict=True):
            places[page] = (head.refs[number - 1], slot)
        pages = self.image(head.parent) if head.parent else {}
        for page in head.gone:
            pages.pop(page, None)
        return pages | {page: self.own(place)[slot] for page, (place, slot) in places.items()}

    def own(self, ref: Ref) -> list[bytes]:
        if ref not in self._read:
            self._read[ref] = self._own(ref)
        return self._read[ref]

    def _own(self, ref: Ref) -> list[bytes]:
        head_segment, *body = self.segments(ref)
        head = images.decode_head(head_segment)
        joined, at, pages = b"".join(body), 0, []
        dictionary = b""
        if head.dictionary:
            source = self.own(head.refs[head.dictionary - 1])
            dictionary = b"".join(source[slot] for slot in images.dictionary_slots(len(source)))
        for number, length in enumerate(head.frames):
            slots = range(number * head.frame_pages, min(len(head.pages), (number + 1) * head.frame_pages))
            prefix = dictionary + b"".join(self.base(head, slot) for slot in slots)
            using = zstandard.ZstdDecompressor(
                dict_data=zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            )
            content = using.decompress(joined[at : at + length])
            pages += [content[i : i + PAGE_BYTES] for i in range(0, len(content), PAGE_BYTES)]
            at += length
        assert at == len(joined)
        ids = b"".join(content_id(self.page_key, b"page", page) for page in pages)
        assert content_id(self.page_key, b"pages", ids) == head.pages_id
        return pages

    def base(self, head: images.ImageHead, slot: int) -> bytes:
        if not head.bases or not head.bases[slot]:
            return b""
        ref = head.refs[head.bases[slot] - 1]
        owner = images.decode_head(self.segments(ref)[0])
        return self.own(ref)[list(owner.pages).index(head.pages[slot])]

    def log(self, ref: Ref) -> bytes:
        head = logs.decode_head(self.segments(ref)[0])
        text = self.log(head.parent) if head.parent else b""
        for number, slot, length in zip(head.given_objects, head.given_slots, head.given_lengths, strict=True):
            text += self.chunk(head.refs[number - 1], slot, length)
        return text + b"".join(self.chunk(ref, slot, length) for slot, length in enumerate(head.lengths))

    def chunk(self, ref: Ref, slot: int, length: int) -> bytes:
        content = zstandard.ZstdDecompressor().decompress(self.segments(ref)[1 + slot])
        assert len(content) == length
        return content
