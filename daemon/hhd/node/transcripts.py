"""What a session said, as a checkpoint in the store has it: bytes, lines, and where two of them part.

A transcript only ever grows, and forks share what was written before them. So two checkpoints' transcripts share the
very objects up to a place near where they part, and only what lies behind is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hhd.store.checkpoints import Checkpoint
from hhd.store.store import Store
from hhd_protocol import logs

TRANSCRIPT = "transcript"
"""The log of a payload that holds it."""

TURN = b'{"event":"turn"'
"""How the line begins with which a model call does; a program that writes it otherwise is told from line to line."""

LEAD_BYTES_MAX = 4 << 20
"""Of a transcript read backwards for the begin of a model call."""


def size(store: Store, checkpoint: Checkpoint) -> int:
    """Return how many bytes the transcript has at `checkpoint`; raises ThinnedError if its content is gone."""
    ref = checkpoint.payload.logs.get(TRANSCRIPT)
    reader = store.reader_of(checkpoint)
    return 0 if ref is None else reader.log_size(ref)


def parts(store: Store, checkpoint: Checkpoint, start: int = 0) -> Iterator[bytes]:
    """Yield the transcript at `checkpoint` from byte `start` on; raises ThinnedError, DamagedStoreError."""
    ref = checkpoint.payload.logs.get(TRANSCRIPT)
    reader = store.reader_of(checkpoint)
    if ref is not None:
        yield from reader.log(ref, start)


def lines(pieces: Iterable[bytes]) -> list[bytes]:
    """Cut what `pieces` joined are into lines, without their ends; a last line that was not ended is one too."""
    whole = b"".join(pieces).split(b"\n")
    return whole if whole[-1] else whole[:-1]


def shared(store: Store, one: Checkpoint, other: Checkpoint) -> int:
    """Return a place up to which the transcripts at two checkpoints of a family are surely alike, in bytes.

    It is the begin of a line. They may go on alike for a while behind it: only what is stored once is known unread.
    """
    mine, theirs = one.payload.logs.get(TRANSCRIPT), other.payload.logs.get(TRANSCRIPT)
    if mine is None or theirs is None:
        return 0
    reader = store.reader_of(one)
    begins = [0]
    for chunk, its in zip(reader.log_chunks(mine), reader.log_chunks(theirs), strict=False):
        if chunk != its:
            break
        begins.append(begins[-1] + chunk.length)
    for begin in reversed(begins[:-1]):
        last = next(reader.log(mine, begin))
        if (end := last.rfind(b"\n")) >= 0:
            return begin + end + 1
    return 0


def lead(store: Store, checkpoint: Checkpoint, end: int) -> list[bytes]:
    """Return the lines of the transcript at `checkpoint` that lead to byte `end`, from its last model call before on.

    `end` is the begin of a line. A model call longer than `LEAD_BYTES_MAX` is returned without its begin.
    """
    ref = checkpoint.payload.logs.get(TRANSCRIPT)
    if ref is None or not end:
        return []
    reader = store.reader_of(checkpoint)
    before: list[tuple[int, logs.Chunk]] = []
    at = 0
    for chunk in reader.log_chunks(ref):
        if at >= end:
            break
        before.append((at, chunk))
        at += chunk.length
    whole = b""
    for at, chunk in reversed(before):
        whole = reader.chunk(chunk)[: end - at] + whole
        if (place := whole.rfind(b"\n" + TURN)) >= 0 or len(whole) > LEAD_BYTES_MAX:
            return lines([whole[place + 1 :]])
    return lines([whole])


def begins(store: Store, one: Checkpoint, other: Checkpoint) -> bool:
    """Whether the transcript at `other` begins with the one at `one`; raises ThinnedError.

    What both store in the same objects is not read.
    """
    alike = shared(store, one, other)
    rest = b"".join(parts(store, one, alike))
    return b"".join(_first(parts(store, other, alike), len(rest))) == rest


def _first(pieces: Iterator[bytes], length: int) -> Iterator[bytes]:
    """The first `length` bytes of `pieces`."""
    for piece in pieces:
        if length <= 0:
            return
        yield piece[:length]
        length -= len(piece)
