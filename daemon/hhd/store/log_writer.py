"""Turns a growing record log into sealed objects: each append is one, and small ones are joined now and then.

A session appends a few hundred bytes at a time, tens of thousands of times. Were each append a chunk for ever, reading
would open as many objects and every list that stands alone would name them all. So with such a list the small chunks at
the end are sealed once more, joined to one; what is as large as that stays as it is. Older lists keep the small ones
until they are thinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hhd.store.families import Family
from hhd.store.reading import Reader
from hhd_protocol import logs
from hhd_protocol.crypto import NONCE_BYTES, content_id
from hhd_protocol.limits import LOG_CHUNK_BYTES_MAX
from hhd_protocol.objects import Ref, object_name, seal_object

OBJECT_CHUNKS = 8
"""An import holds one object, 8 MiB before compression, in memory at a time."""

LIST_APPENDS = 64
"""Appends between lists that stand alone: reading walks at most so many heads."""

JOINED_BYTES = 64 * 1024
"""A chunk smaller than this is joined with its like: opening one takes as long as its bytes from there on."""

JOINED_CHUNKS_MIN = 8
"""Fewer small chunks at the end stay as they are: a process that appends once and ends would seal them each time."""


class LogWriter:
    """Appends to one log. Not durable by itself: the caller's transaction is."""

    def __init__(
        self, family: Family, put: Callable[[Ref, bytes], None], random: Callable[[int], bytes], *, reader: Reader
    ) -> None:
        """`put` keeps what is written where `reader` finds it."""
        self._family, self._put, self._random, self._reader = family, put, random, reader
        self.last: Ref | None = None
        self.size = 0
        self._chunks: list[logs.Chunk] = []
        self._appends = 0
        self._recent: dict[logs.Chunk, bytes] = {}
        """Small chunks that this writer wrote since the last list that stands alone."""

    @classmethod
    def resume(
        cls,
        family: Family,
        put: Callable[[Ref, bytes], None],
        random: Callable[[int], bytes],
        *,
        reader: Reader,
        last: Ref,
    ) -> LogWriter:
        """Return a writer that goes on at the end of the log `last`."""
        writer = cls(family, put, random, reader=reader)
        writer.last, writer._chunks = last, reader.log_chunks(last)
        writer.size = sum(chunk.length for chunk in writer._chunks)
        writer._appends = LIST_APPENDS
        return writer

    def append(self, content: bytes) -> Ref:
        """Store `content` behind what is there and return the log's newest object; nothing to append is nothing new."""
        for ref in self.extend((content,)):
            self.last = ref
        return self.last if self.last is not None else self._object([])

    def extend(self, pieces: Iterable[bytes]) -> Iterator[Ref]:
        """Store `pieces`, of any sizes, behind what is there; yield each object as it is put."""
        waiting: list[bytes] = []
        for chunk in _chunked(pieces):
            waiting.append(chunk)
            if len(waiting) == OBJECT_CHUNKS:
                yield self._object(waiting)
                waiting = []
        if waiting:
            yield self._object(waiting)

    def _object(self, chunks: list[bytes]) -> Ref:
        alone = self.last is None or self._appends >= LIST_APPENDS
        if alone and (small := self._small()):
            chunks = [*_chunked([*map(self._content, small), *chunks])]
            self._chunks = self._chunks[: -len(small)]
            self.size -= sum(chunk.length for chunk in small)
        if alone:
            self._recent.clear()
        listed = self._chunks if alone else []
        refs = list(dict.fromkeys(chunk.object for chunk in listed))
        number_of = {ref: i + 1 for i, ref in enumerate(refs)}
        ids = b"".join(content_id(self._family.page_key, b"chunk", chunk) for chunk in chunks)
        head = logs.LogHead(
            parent=None if alone else self.last,
            refs=refs,
            given_objects=[number_of[chunk.object] for chunk in listed],
            given_slots=[chunk.slot for chunk in listed],
            given_lengths=[chunk.length for chunk in listed],
            lengths=[len(chunk) for chunk in chunks],
            chunks_id=content_id(self._family.page_key, b"chunks", ids),
        )
        segments = [logs.encode_head(head), *map(logs.encode_chunk, chunks)]
        raw = seal_object(self._family.key(self._family.epoch), self._random(NONCE_BYTES), segments)
        ref = Ref(name=object_name(raw), epoch=self._family.epoch)
        self._put(ref, raw)
        for slot, content in enumerate(chunks):
            chunk = logs.Chunk(ref, slot, len(content))
            self._chunks.append(chunk)
            if len(content) < JOINED_BYTES:
                self._recent[chunk] = content
        self.size += sum(map(len, chunks))
        self._appends = 1 if alone else self._appends + 1
        self.last = ref
        return ref

    def _small(self) -> list[logs.Chunk]:
        """The small chunks at the end, if they are worth joining: at most as many bytes as fit one chunk."""
        count, size = 0, 0
        for chunk in reversed(self._chunks):
            size += chunk.length
            if chunk.length >= JOINED_BYTES or size > LOG_CHUNK_BYTES_MAX:
                break
            count += 1
        return self._chunks[len(self._chunks) - count :] if count >= JOINED_CHUNKS_MIN else []

    def _content(self, chunk: logs.Chunk) -> bytes:
        return self._recent.get(chunk) or self._reader.chunk(chunk)


def _chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of `pieces` in chunks of at most LOG_CHUNK_BYTES_MAX, joining small ones."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        for begin in range(0, len(piece), LOG_CHUNK_BYTES_MAX):
            part = piece[begin : begin + LOG_CHUNK_BYTES_MAX]
            if size + len(part) > LOG_CHUNK_BYTES_MAX:
                yield b"".join(held)
                held, size = [], 0
            held.append(part)
            size += len(part)
    if held:
        yield b"".join(held)
