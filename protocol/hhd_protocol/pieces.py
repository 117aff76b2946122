"""Pieces of captured files as sealed objects: many to an object, found by content id (`store.md`, Pieces)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.columns import Column, decode_column, encode_column
from hhd_protocol.compression import compress, decompress, decompress_exactly, decompressor
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import PageId
from hhd_protocol.limits import (
    OBJECT_HEAD_BYTES_MAX,
    PIECES_FRAMES_MAX,
    PIECES_OBJECT_MAX,
    WORKSPACE_PIECE_BYTES,
    WORKSPACE_ROOT_BYTES_MAX,
)
from hhd_protocol.objects import Ref, decode_refs, encode_refs

VERSION = 1
KIND = "pieces"


@dataclass(frozen=True, kw_only=True)
class PiecesHead:
    """The first segment of an object of pieces, opened.

    `ids` and `lengths`: each own piece, in order. `frames`: how many pieces each body segment holds, end to end in one
    zstd frame of at most 1 MiB. `root`: the root of a capture (`workspace.md`) whose pieces are here and in the objects
    of `refs`; empty if this object only holds pieces for others.
    """

    refs: Sequence[Ref]
    ids: Sequence[PageId]
    lengths: Column
    frames: Column
    root: bytes

    parent: ClassVar[None] = None
    """Objects of pieces have no list that others go on from."""


def encode_head(head: PiecesHead) -> bytes:
    """Return the first segment of an object of pieces."""
    fields: list[Value] = [
        VERSION,
        KIND,
        *encode_refs(None, head.refs),
        b"".join(head.ids),
        encode_column(head.lengths),
        encode_column(head.frames),
        head.root,
    ]
    return compress(encode(fields))


def decode_head(raw: bytes) -> PiecesHead:
    """Return the head that a first segment holds; raises FormatError on anything `encode_head` would not write."""
    fields = decode(decompress(raw, bytes_max=OBJECT_HEAD_BYTES_MAX), bytes_max=OBJECT_HEAD_BYTES_MAX)
    if not isinstance(fields, list) or len(fields) < 2 or type(fields[0]) is not int or fields[1] != KIND:
        raise FormatError("the object does not hold pieces")
    if fields[0] > VERSION:
        raise NewerVersionError("the object of pieces is of a newer version than this program knows")
    if fields[0] != VERSION or len(fields) != 10:
        raise FormatError("the head of an object of pieces has the wrong number of fields")
    parent, refs = decode_refs(fields[2:6])
    ids, root = fields[6], fields[9]
    if parent is not None or not isinstance(ids, bytes) or len(ids) % 32 or not isinstance(root, bytes):
        raise FormatError("the head of an object of pieces has a field of the wrong kind")
    head = PiecesHead(
        refs=refs,
        ids=[PageId(ids[at : at + 32]) for at in range(0, len(ids), 32)],
        lengths=decode_column(fields[7]),
        frames=decode_column(fields[8]),
        root=root,
    )
    _insist(head)
    return head


def _insist(head: PiecesHead) -> None:
    if len(head.ids) > PIECES_OBJECT_MAX or len(head.frames) > PIECES_FRAMES_MAX:
        raise TooLargeError("an object of pieces has more of them than its bound")
    if len(head.root) > WORKSPACE_ROOT_BYTES_MAX:
        raise TooLargeError("the root of a capture passes its bound")
    if len(head.lengths) != len(head.ids) or len(set(head.ids)) != len(head.ids):
        raise FormatError("the pieces of an object are not one length for each id, or one is there twice")
    if head.lengths and not 0 < min(head.lengths) <= max(head.lengths) <= WORKSPACE_PIECE_BYTES:
        raise FormatError("a piece is empty or passes its bound")
    if sum(head.frames) != len(head.ids) or min(head.frames, default=1) == 0:
        raise FormatError("the frames of an object of pieces do not hold its pieces")
    at = 0
    for count in head.frames:
        if sum(head.lengths[at : at + count]) > WORKSPACE_PIECE_BYTES:
            raise FormatError("a frame of pieces passes its bound")
        at += count


def encode_frame(pieces: Sequence[bytes]) -> bytes:
    """Return the body segment that holds `pieces`, together at most 1 MiB."""
    joined = b"".join(pieces)
    assert 0 < len(joined) <= WORKSPACE_PIECE_BYTES
    return compress(joined)


def decode_frame(segment: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Return the pieces of a body segment; raises FormatError if it holds anything else."""
    joined = decompress_exactly(segment, sum(lengths), decompressor(b""))
    found, at = [], 0
    for length in lengths:
        found.append(joined[at : at + length])
        at += length
    return found
