"""What of a peer's changes comes in at all: looked at before automerge reads them.

A few bytes of a change can stand for billions of rows (run lengths) or for gigabytes (deflate), and the Python face of
automerge panics at values of some kinds, after which the document cannot be read at all. So each chunk is walked
through here: counts and runs are added up, nothing is kept, and only what an hhd writes comes in, which is texts put at
and removed from the root of the document. What holds the bounds but means nothing is automerge's to refuse.

Format: https://automerge.org/automerge-binary-format-spec/, sections Chunks, Change Chunks and Columns; sync messages
as `rust/automerge/src/sync.rs` of automerge writes them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import (
    REGISTRY_CHANGES_BYTES_MAX,
    REGISTRY_HEADS_MAX,
    REGISTRY_ROWS_MAX,
    REGISTRY_TEXT_BYTES_MAX,
)

_MAGIC = bytes.fromhex("856f4a83")
_CHANGE, _COMPRESSED = 1, 2
_HASH_BYTES = 32
_MESSAGES = (0x42, 0x43)
_BLOOM_PROBES_MAX, _BLOOM_BITS_MAX = 32, 64

_KEY, _INSERT, _ACTION, _VALUE_META, _VALUE = 0x15, 0x34, 0x42, 0x56, 0x57
_REPLACED_COUNT, _REPLACED_ACTOR, _REPLACED_NUMBER = 0x70, 0x71, 0x73
_PUT, _REMOVE = 1, 3
_NOTHING, _TEXT = 0, 6
_COLUMNS = (_KEY, _INSERT, _ACTION, _VALUE_META, _VALUE, _REPLACED_COUNT, _REPLACED_ACTOR, _REPLACED_NUMBER)
"""Columns of a change by their specification: what there is in puts and removals of texts at the root."""


def insist_on_bounded_message(raw: bytes) -> None:
    """Raise FormatError unless `raw` is a sync message whose parts are what it says, and cost little to read."""
    if len(raw) > REGISTRY_CHANGES_BYTES_MAX:
        raise TooLargeError("a message about the shared document is too large")
    at = _Walk(raw)
    if at.byte() not in _MESSAGES:
        raise FormatError("a message about the shared document is of no kind known here")
    for _ in range(2):  # Heads; what the peer asks for.
        at.hashes()
    for _ in range(at.count(REGISTRY_HEADS_MAX)):
        at.hashes()
        _bloom(_Walk(at.bytes(REGISTRY_CHANGES_BYTES_MAX)))
    for _ in range(at.count(REGISTRY_ROWS_MAX)):
        insist_on_bounded_changes(at.bytes(REGISTRY_CHANGES_BYTES_MAX))


def insist_on_bounded_changes(raw: bytes) -> None:
    """Raise FormatError unless `raw` is changes end to end that cost little to read and put or remove texts."""
    at, unpacked, rows = _Walk(raw), 0, 0
    while at.left():
        if at.take(4) != _MAGIC:
            raise FormatError("a change of the shared document does not begin as one")
        at.take(4)  # Checksum.
        kind = at.byte()
        body = at.bytes(REGISTRY_CHANGES_BYTES_MAX)
        if kind == _COMPRESSED:
            body = _inflated(body, REGISTRY_CHANGES_BYTES_MAX - unpacked)
        elif kind != _CHANGE:
            raise FormatError("something else than a change came where changes of the shared document belong")
        unpacked += len(body)
        rows += _rows(_Walk(body))
        if unpacked > REGISTRY_CHANGES_BYTES_MAX or rows > REGISTRY_ROWS_MAX:
            raise TooLargeError("changes of the shared document are too large")


def _rows(at: _Walk) -> int:
    """Walk through the body of a change; return the rows of its longest column, raise for what no hhd writes."""
    at.hashes()
    at.bytes(64)  # Actor.
    for _ in range(3):  # Sequence number, first operation, time.
        at.leb()
    at.bytes(REGISTRY_TEXT_BYTES_MAX)  # Message.
    for _ in range(at.count(REGISTRY_HEADS_MAX)):
        at.bytes(64)  # Other actors.
    described = [(at.leb(), at.leb()) for _ in range(at.count(len(_COLUMNS)))]
    columns = {spec: at.take(length) for spec, length in described}
    if at.left() or not set(columns) <= set(_COLUMNS) or len(columns) < len(described):
        raise FormatError("a change of the shared document holds something that no hhd writes")
    values = columns.pop(_VALUE, b"")
    rows = 0
    for spec, column in columns.items():
        count, most = 0, len(values) if spec == _VALUE_META else REGISTRY_ROWS_MAX
        for run, weight in _runs(spec, _Walk(column)):
            count += run
            most -= run * weight
            if count > REGISTRY_ROWS_MAX or most < 0:
                raise TooLargeError("a change of the shared document has too many rows")
        if spec == _VALUE_META and most:
            raise FormatError("a change of the shared document has other values than it describes")
        rows = max(rows, count)
    return rows


def _runs(spec: int, at: _Walk) -> Iterator[tuple[int, int]]:
    """Yield the runs of a column: how many rows, and what each adds to what the column as a whole may come to."""
    if spec == _INSERT:  # Nothing is inserted anywhere: that is for lists.
        yield at.leb(), 0
        if at.left():
            raise FormatError("a change of the shared document holds something that no hhd writes")
        return
    while at.left():
        run = at.signed()
        if run == 0:
            if spec not in (_REPLACED_ACTOR, _REPLACED_NUMBER):
                raise FormatError("a change of the shared document holds something that no hhd writes")
            yield at.leb(), 0
        elif run > 0:
            yield run, _weight(spec, at)
        else:
            if -run > at.left():
                raise FormatError("a column of a change ends before its rows")
            for _ in range(-run):
                yield 1, _weight(spec, at)


def _weight(spec: int, at: _Walk) -> int:
    """Walk over one value of a column, insisting that it is one that an hhd writes."""
    if spec == _KEY:
        at.bytes(REGISTRY_TEXT_BYTES_MAX)
        return 0
    if spec in (_REPLACED_ACTOR, _REPLACED_NUMBER):
        at.signed()
        return 0
    value = at.leb()
    if spec == _REPLACED_COUNT:
        return value
    if spec == _ACTION and value in (_PUT, _REMOVE):
        return 0
    if spec == _VALUE_META and value & 15 in (_NOTHING, _TEXT) and value >> 4 <= REGISTRY_TEXT_BYTES_MAX:
        return value >> 4
    raise FormatError("a change of the shared document holds something that no hhd writes")


def _bloom(at: _Walk) -> None:
    """Insist that a filter says how it was made and asks for little work."""
    if at.left():
        entries, bits, probes = at.leb(), at.leb(), at.leb()
        if not 0 < bits <= _BLOOM_BITS_MAX or not 0 < probes <= _BLOOM_PROBES_MAX:
            raise FormatError("a message about the shared document asks for endless work")
        if at.left() != -(-entries * bits // 8):
            raise FormatError("a filter in a message about the shared document is cut off")


def _inflated(body: bytes, bytes_max: int) -> bytes:
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        opened = unpack.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise FormatError("a packed change of the shared document does not unpack") from error
    if len(opened) > bytes_max:
        raise TooLargeError("a packed change of the shared document is too large")
    return opened


class _Walk:
    """A position in bytes; every step raises FormatError past the end."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def left(self) -> int:
        return len(self._raw) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left():
            raise FormatError("a message about the shared document ends too early")
        self._at += count
        return self._raw[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def leb(self) -> int:
        """An unsigned LEB128 of at most 64 bits (a negative time is read as a large number)."""
        number, shift = 0, 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise FormatError("a number in a message about the shared document has no end")

    def signed(self) -> int:
        begin = self._at
        number = self.leb()
        bits = 7 * (self._at - begin)
        return number - (1 << bits) if number >> (bits - 1) else number

    def count(self, most: int) -> int:
        number = self.leb()
        if number > most:
            raise TooLargeError("a message about the shared document counts too much")
        return number

    def bytes(self, most: int) -> bytes:
        return self.take(self.count(most))

    def hashes(self) -> None:
        self.take(_HASH_BYTES * self.count(REGISTRY_HEADS_MAX))
