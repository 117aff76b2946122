"""Turns a growing record log into sealed objects: each append is one, bytes already stored are never sealed again."""

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


class LogWriter:
    """Appends to one log. Not durable by itself: the caller's transaction is."""

    def __init__(self, family: Family, put: Callable[[Ref, bytes], None], random: Callable[[int], bytes]) -> None:
        self._family, self._put, self._random = family, put, random
        self.last: Ref | None = None
        self.size = 0
        self._chunks: list[logs.Chunk] = []
        self._appends = 0

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
        writer = cls(family, put, random)
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
        self._chunks += [logs.Chunk(ref, slot, len(chunk)) for slot, chunk in enumerate(chunks)]
        self.size += sum(map(len, chunks))
        self._appends = 1 if alone else self._appends + 1
        self.last = ref
        return ref


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
