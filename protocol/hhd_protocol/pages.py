"""The changed pages of one memory, packed: their numbers in one piece, their contents in pieces of a bounded size."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import lt

from hhd_protocol.compression import LEVEL_FAST
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import PAGE_BYTES, PAGES_PER_PIECE
from hhd_protocol.packed import Packed, pack, unpack

PIECE_BYTES = PAGES_PER_PIECE * PAGE_BYTES


@dataclass(frozen=True, kw_only=True)
class PageSet:
    """`numbers` packs ascending big-endian 32-bit page numbers; None if there are no pages.

    `contents` are the pages themselves in that order, `PAGES_PER_PIECE` to a piece, the last one with the rest.
    """

    numbers: Packed | None
    contents: tuple[Packed, ...]

    def __len__(self) -> int:
        return 0 if self.numbers is None else self.numbers.raw_bytes // 4


NO_PAGES = PageSet(numbers=None, contents=())


def pack_pages(numbers: Sequence[int], pages: Sequence[bytes | memoryview], before: PageSet = NO_PAGES) -> PageSet:
    """Return the pages `numbers` (ascending), whose contents are the buffers of `pages` end to end.

    Pieces that `before` has are taken from there: a program that works on a part of a large memory packs that part.
    """
    if not numbers:
        return NO_PAGES
    known = {piece.digest: piece for piece in before.contents}
    return PageSet(
        numbers=pack(struct.pack(f">{len(numbers)}I", *numbers), LEVEL_FAST),
        contents=tuple(pack(piece, LEVEL_FAST, known) for piece in _regroup(pages)),
    )


def unpack_pages(pages: PageSet, memory_bytes: int) -> tuple[Sequence[int], list[bytes]]:
    """Return the page numbers and the contents, both proven to fit into `memory_bytes` of memory."""
    if pages.numbers is None:
        return (), []
    numbers = struct.unpack(f">{len(pages)}I", unpack(pages.numbers))
    if numbers[-1] >= memory_bytes // PAGE_BYTES:
        raise FormatError(f"page {numbers[-1]} lies outside the memory of {memory_bytes} bytes")
    if not all(map(lt, numbers, numbers[1:])):
        raise FormatError("the page numbers do not ascend")
    return numbers, [unpack(piece) for piece in pages.contents]


def piece_lengths(count: int) -> list[int]:
    """The raw lengths that the content pieces of `count` pages have."""
    full, rest = divmod(count * PAGE_BYTES, PIECE_BYTES)
    return [PIECE_BYTES] * full + ([rest] if rest else [])


def _regroup(buffers: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Cut the concatenation of `buffers` into pieces of `PIECE_BYTES`, the last one with the rest."""
    held: list[bytes | memoryview] = []
    room = PIECE_BYTES
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while len(view):
            part, view = view[:room], view[room:]
            held.append(part)
            room -= len(part)
            if not room:
                yield _joined(held)
                held, room = [], PIECE_BYTES
    if held:
        yield _joined(held)


def _joined(parts: list[bytes | memoryview]) -> bytes | memoryview:
    return parts[0] if len(parts) == 1 else b"".join(parts)
