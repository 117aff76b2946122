"""One compressed piece of a file: a single zstd frame that says how long it is before anybody unpacks it.

A frame from outside is hostile: a few kilobytes may claim, or become, ten gigabytes. So a piece carries the length and
the SHA-256 of what is inside, the reader bounds that length by the place the piece stands in, the frame itself has to
name the very same length, and no more memory than that is ever asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

from hhd_protocol import codec
from hhd_protocol.compression import LEVEL, Buffer, compress, decompress_exactly, insist_on_window
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import Sha256
from hhd_protocol.limits import PACKED_EXCESS_BYTES, ZSTD_WINDOW_BYTES_MAX


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """`stored` is one zstd frame holding `raw_bytes` bytes (at least one) whose SHA-256 is `digest`."""

    stored: Buffer
    raw_bytes: int
    digest: Sha256

    def value(self) -> codec.Value:
        """What a header says of this piece."""
        return [len(self.stored), self.raw_bytes, self.digest]


def pack(raw: Buffer, level: int = LEVEL, known: Mapping[Sha256, Packed] = MappingProxyType({})) -> Packed:
    """Return `raw`, which is not empty, as a piece: one of `known`, by digest, or packed anew."""
    assert len(raw) > 0
    digest = Sha256(sha256(raw).digest())
    if (same := known.get(digest)) is not None:
        return same
    return Packed(stored=compress(raw, level), raw_bytes=len(raw), digest=digest)


def unpack(piece: Packed) -> bytes:
    """Return what is inside; raises FormatError if it is not exactly what `piece` says."""
    insist_on_window(piece.stored, max(ZSTD_WINDOW_BYTES_MAX, piece.raw_bytes))
    raw = decompress_exactly(piece.stored, piece.raw_bytes)
    if sha256(raw).digest() != piece.digest:
        raise FormatError("a compressed piece holds something else than its header says")
    return raw


def stored_bytes_max(raw_bytes: int) -> int:
    """The most that zstd makes of `raw_bytes` that do not shrink."""
    return raw_bytes + raw_bytes // 128 + PACKED_EXCESS_BYTES


def parse(value: codec.Value, what: str, raw_bytes_max: int) -> tuple[int, int, Sha256]:
    """Return (stored length, raw length, digest) from a header; raises if they are not numbers in bounds."""
    if not isinstance(value, list) or len(value) != 3:
        raise FormatError(f"{what} is not described by two lengths and a digest")
    stored, raw, digest = value
    if type(stored) is not int or type(raw) is not int or not isinstance(digest, bytes) or len(digest) != 32:
        raise FormatError(f"{what} is not described by two lengths and a digest")
    if raw > raw_bytes_max:
        raise TooLargeError(f"{what} has {raw} bytes, which passes the bound of {raw_bytes_max}")
    if raw < 1 or not 1 <= stored <= stored_bytes_max(raw):
        raise FormatError(f"{what} has lengths that no compressed piece has")
    return stored, raw, Sha256(digest)
