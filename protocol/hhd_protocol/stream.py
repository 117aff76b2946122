"""Bytes that only ever grow, kept as compressed chunks so that appending costs the same however long they are.

Transcript and effect history are such streams. Chunk k holds the bytes from k times `STREAM_CHUNK_BYTES` on, so the
chunks, and with them every digest, follow from the bytes alone, not from how they arrived. All but the last are full
and are never touched again: a step unpacks and packs the last chunk and copies the others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hhd_protocol.limits import STREAM_CHUNK_BYTES
from hhd_protocol.packed import Packed, pack, unpack


@dataclass(frozen=True, kw_only=True)
class Stream:
    """All bytes so far; every chunk but the last has exactly `STREAM_CHUNK_BYTES` inside."""

    chunks: tuple[Packed, ...] = ()

    def __len__(self) -> int:
        return len(self.chunks[:-1]) * STREAM_CHUNK_BYTES + (self.chunks[-1].raw_bytes if self.chunks else 0)

    def __iter__(self) -> Iterator[bytes]:
        """Each chunk's bytes in turn; raises FormatError at a damaged one."""
        return map(unpack, self.chunks)

    def append(self, new: bytes) -> Stream:
        """Return the stream with `new` at its end."""
        if not new:
            return self
        kept = self.chunks
        if kept and kept[-1].raw_bytes < STREAM_CHUNK_BYTES:
            new = unpack(kept[-1]) + new
            kept = kept[:-1]
        view = memoryview(new)
        cuts = range(0, len(new), STREAM_CHUNK_BYTES)
        return Stream(chunks=(*kept, *(pack(view[at : at + STREAM_CHUNK_BYTES]) for at in cuts)))
