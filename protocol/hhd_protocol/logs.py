"""Record logs as sealed objects: append-only bytes in chunks, each of which opens alone (`store.md`, Logs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.columns import Column, decode_column, encode_column
from hhd_protocol.compression import compress, decompress, decompress_exactly
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import LOG_CHUNK_BYTES_MAX, LOG_OBJECT_CHUNKS_MAX, OBJECT_HEAD_BYTES_MAX
from hhd_protocol.objects import Ref, decode_refs, encode_refs

VERSION = 1
KIND = "log"


class Chunk(NamedTuple):
    """Where a stretch of a log is: own chunk `slot` of an object, `length` bytes long."""

    object: Ref
    slot: int
    length: int


@dataclass(frozen=True, kw_only=True)
class LogHead:
    """The first segment of a log object, opened.

    The list of a log is its parent's (None: empty), then the `given` chunks that other objects hold, then the own
    ones. `lengths`: bytes of each own chunk, which is body segment of the same position, one zstd frame.
    `chunks_id`: content id over the ids of the own chunks.
    """

    parent: Ref | None
    refs: Sequence[Ref]
    given_objects: Column
    given_slots: Column
    given_lengths: Column
    lengths: Column
    chunks_id: PageId

    def chunks(self, own: Ref) -> list[Chunk]:
        """Return what this object adds to the list of its parent; `own` is the reference to this object itself."""
        given = zip(self.given_objects, self.given_slots, self.given_lengths, strict=True)
        return [Chunk(self.refs[number - 1], slot, length) for number, slot, length in given] + [
            Chunk(own, slot, length) for slot, length in enumerate(self.lengths)
        ]


def encode_head(head: LogHead) -> bytes:
    """Return the first segment of a log object."""
    fields: list[Value] = [
        VERSION,
        KIND,
        *encode_refs(head.parent, head.refs),
        encode_column(head.given_objects),
        encode_column(head.given_slots),
        encode_column(head.given_lengths),
        encode_column(head.lengths),
        head.chunks_id,
    ]
    return compress(encode(fields))


def decode_head(raw: bytes) -> LogHead:
    """Return the head that a first segment holds; raises FormatError on anything `encode_head` would not write."""
    fields = decode(decompress(raw, bytes_max=OBJECT_HEAD_BYTES_MAX), bytes_max=OBJECT_HEAD_BYTES_MAX)
    if not isinstance(fields, list) or len(fields) < 2 or type(fields[0]) is not int or fields[1] != KIND:
        raise FormatError("the object does not hold a log")
    if fields[0] > VERSION:
        raise NewerVersionError("the log is of a newer version than this program knows")
    if fields[0] != VERSION or len(fields) != 11:
        raise FormatError("the head of a log has the wrong number of fields")
    parent, refs = decode_refs(fields[2:6])
    chunks_id = fields[10]
    if not isinstance(chunks_id, bytes) or len(chunks_id) != 32:
        raise FormatError("the head of a log has a field of the wrong kind")
    head = LogHead(
        parent=parent,
        refs=refs,
        given_objects=decode_column(fields[6]),
        given_slots=decode_column(fields[7]),
        given_lengths=decode_column(fields[8]),
        lengths=decode_column(fields[9]),
        chunks_id=PageId(chunks_id),
    )
    _insist(head)
    return head


def _insist(head: LogHead) -> None:
    if len(head.lengths) > LOG_OBJECT_CHUNKS_MAX:
        raise TooLargeError("a log object has more chunks than its bound")
    if not len(head.given_objects) == len(head.given_slots) == len(head.given_lengths):
        raise FormatError("the columns of a log's list differ in length")
    if head.given_objects and (min(head.given_objects) < 1 or max(head.given_objects) > len(head.refs)):
        raise FormatError("a log's list names an object that it does not refer to")
    if max(head.given_slots, default=0) >= LOG_OBJECT_CHUNKS_MAX:
        raise FormatError("a slot of a log's list passes its bound")
    for lengths in (head.given_lengths, head.lengths):
        if lengths and not 0 < min(lengths) <= max(lengths) <= LOG_CHUNK_BYTES_MAX:
            raise FormatError("a chunk of a log is empty or passes its bound")


def encode_chunk(content: bytes) -> bytes:
    """Return the body segment that holds `content`."""
    assert 0 < len(content) <= LOG_CHUNK_BYTES_MAX
    return compress(content)


def decode_chunk(segment: bytes, length: int) -> bytes:
    """Return the `length` bytes of a body segment; raises FormatError if it holds anything else."""
    return decompress_exactly(segment, length)
