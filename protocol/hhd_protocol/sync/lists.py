"""What the list of an image's places can be told as, to who has the image before (`protocol/spec/sync.md`, Rebuilding).

A list that stands alone names a place for every page, and all but a few are those of before. Both sides make the same
list out of the image before, `near`, and the head goes as the difference to it. How `near` is made only decides how few
bytes that takes: what comes of it is compared with a digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hhd_protocol.codec import encode
from hhd_protocol.columns import Column, encode_column, encode_rising
from hhd_protocol.compression import compress, compressor, decompress, decompress_exactly, decompressor, frame_size
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.images import ImageHead
from hhd_protocol.limits import OBJECT_HEAD_BYTES_MAX
from hhd_protocol.objects import Ref, encode_refs

Places = Mapping[int, tuple[Ref, int]]
"""By page the object that owns it, and its slot there."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """A head as a difference: `own`, the pages that are new, and `first`, the objects that it numbers out of turn, say
    how `near` is made of the places of the image before; `frame` is the head behind that."""

    own: Column
    first: Column
    frame: bytes


def tell(head: ImageHead, segment: bytes, places: Places) -> Told:
    """Return how the first segment of an object, opened as `head`, is told to who has `places`."""
    order = _order(places, frozenset(head.pages))
    known = [order[ref] for ref in head.refs if ref in order]
    turn = max((at for at in range(1, len(known)) if known[at - 1] > known[at]), default=0)
    first = known[:turn]  # Behind them each comes in its turn.
    plain = decompress(segment, bytes_max=OBJECT_HEAD_BYTES_MAX)
    prefix = near(places, head.pages, first)
    return Told(own=tuple(head.pages), first=tuple(first), frame=compressor(prefix, len(plain)).compress(plain))


def heard(told: Told, places: Places) -> bytes:
    """Return the first segment, as this build of zstd makes it; raises FormatError."""
    size = frame_size(told.frame)
    if size > OBJECT_HEAD_BYTES_MAX:
        raise TooLargeError(f"a head of {size} bytes passes its bound")
    prefix = near(places, told.own, told.first)
    return compress(decompress_exactly(told.frame, size, decompressor(prefix)))


def near(places: Places, own: Column, first: Column) -> bytes:
    """Return the list of `places` without the pages `own`, as a head has it, its objects in the order of their pages
    but for those at `first`, which come first; raises FormatError."""
    left_out = frozenset(own)
    order = list(_order(places, left_out))
    if max(first, default=-1) >= len(order):
        raise FormatError("a recipe puts an object first that the image before does not have")
    refs = list(dict.fromkeys([*(order[at] for at in first), *order]))
    number = {ref: at + 1 for at, ref in enumerate(refs)}
    pages = [page for page in sorted(places) if page not in left_out]
    return encode(
        [
            *encode_refs(None, refs),
            encode_rising(pages),
            encode_column([number[places[page][0]] for page in pages]),
            encode_column([places[page][1] for page in pages]),
        ]
    )


def _order(places: Places, left_out: frozenset[int]) -> dict[Ref, int]:
    """The objects in the order of their pages, each with its place in that."""
    refs = dict.fromkeys(places[page][0] for page in sorted(places) if page not in left_out)
    return {ref: at for at, ref in enumerate(refs)}
