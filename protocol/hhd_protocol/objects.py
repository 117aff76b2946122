"""A sealed object: one or more segments under one key, named by the hash of its sealed bytes (`sealing.md`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from hhd_protocol.codec import Value
from hhd_protocol.columns import decode_column, encode_column
from hhd_protocol.crypto import NONCE_BYTES, TAG_BYTES, seal, unseal
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import EpochId, ObjectName
from hhd_protocol.limits import OBJECT_BYTES_MAX, OBJECT_REFS_MAX, OBJECT_SEGMENTS_MAX

VERSION = 1


class Ref(NamedTuple):
    """Where an object is and under which epoch's key it opens: the object itself tells neither family nor epoch."""

    name: ObjectName
    epoch: EpochId


def seal_object(key: bytes, nonce: bytes, segments: Sequence[bytes]) -> bytes:
    """Return the object that holds `segments` (1 to 255 of them), each openable alone; `nonce` is 24 random bytes."""
    assert 1 <= len(segments) <= OBJECT_SEGMENTS_MAX and len(nonce) == NONCE_BYTES
    header = _header(len(segments)).pack(VERSION, len(segments), *(len(one) + TAG_BYTES for one in segments)) + nonce
    sealed = [seal(key, _nth(nonce, i), segment, ad=header + bytes((i,))) for i, segment in enumerate(segments)]
    raw = b"".join((header, *sealed))
    assert len(raw) <= OBJECT_BYTES_MAX
    return raw


def object_name(raw: bytes) -> ObjectName:
    """Return the name of a sealed object, which who cannot read it can check."""
    return ObjectName(hashlib.sha256(raw).digest())


class SealedObject:
    """The outside of a sealed object: where its segments are. Opening one needs the key of its epoch."""

    def __init__(self, raw: bytes) -> None:
        """Raises FormatError if `raw` does not have the outer form of an object."""
        if len(raw) > OBJECT_BYTES_MAX:
            raise TooLargeError(f"an object of {len(raw)} bytes passes the bound of {OBJECT_BYTES_MAX}")
        if len(raw) < 2 or raw[0] == 0:
            raise FormatError("the bytes are not a sealed object")
        if raw[0] > VERSION:
            raise NewerVersionError("the object is of a newer version than this program knows")
        count = raw[1]
        layout = _header(count)
        self._begin = layout.size + NONCE_BYTES
        if count == 0 or len(raw) < self._begin:
            raise FormatError("the object is cut short")
        lengths = layout.unpack_from(raw)[2:]
        if min(lengths) < TAG_BYTES or self._begin + sum(lengths) != len(raw):
            raise FormatError("the segments of the object do not add up to its length")
        self._raw = raw
        self._ends = list(accumulate(lengths, initial=self._begin))
        self.count = count

    def segment(self, key: bytes, number: int) -> bytes:
        """Return segment `number`; raises SealError if it does not open under `key`."""
        sealed = self._raw[self._ends[number] : self._ends[number + 1]]
        header = self._raw[: self._begin]
        nonce = header[-NONCE_BYTES:]
        return unseal(key, _nth(nonce, number), sealed, ad=header + bytes((number,)))


def encode_refs(parent: Ref | None, refs: Sequence[Ref]) -> list[Value]:
    """Return the four fields by which a head refers to other objects: epochs, parent, names, epoch of each name."""
    epochs = sorted({ref.epoch for ref in refs} | ({parent.epoch} if parent else set()))
    number = {epoch: i for i, epoch in enumerate(epochs)}
    return [
        list(epochs),
        [parent.name, number[parent.epoch]] if parent else None,
        b"".join(ref.name for ref in refs),
        encode_column([number[ref.epoch] for ref in refs]),
    ]


def decode_refs(fields: Sequence[Value]) -> tuple[Ref | None, list[Ref]]:
    """Return the parent and the objects that four fields of a head stand for; raises FormatError."""
    epochs, parent, names, numbers = fields
    if not isinstance(epochs, list) or not all(isinstance(one, bytes) and len(one) == 32 for one in epochs):
        raise FormatError("the epochs of a head are not a list of hashes")
    known = [EpochId(one) for one in epochs if isinstance(one, bytes)]
    if sorted(set(known)) != known:
        raise FormatError("the epochs of a head do not ascend")
    of = decode_column(numbers)
    if not isinstance(names, bytes) or len(names) != 32 * len(of) or len(of) > OBJECT_REFS_MAX:
        raise FormatError("the objects of a head do not match their epochs")
    if max(of, default=-1) >= len(known):
        raise FormatError("an object of a head is of no epoch that it names")
    refs = [Ref(name=ObjectName(names[32 * i : 32 * i + 32]), epoch=known[of[i]]) for i in range(len(of))]
    if parent is None:
        return None, refs
    match parent:
        case [bytes(name), int(epoch)] if len(name) == 32 and type(epoch) is int and 0 <= epoch < len(known):
            return Ref(name=ObjectName(name), epoch=known[epoch]), refs
    raise FormatError("the parent of an object is not a reference")


_HEADERS = [Struct(f"<BB{count}I") for count in range(OBJECT_SEGMENTS_MAX + 1)]


def _header(count: int) -> Struct:
    return _HEADERS[count]


def _nth(nonce: bytes, number: int) -> bytes:
    return nonce[:-1] + bytes((nonce[-1] ^ number,))
