"""A guest's snapshot as an image and back: pages by number, and the rest as the image's state (`store.md`)."""

from __future__ import annotations

from collections.abc import Iterator

from hhd.store.errors import DamagedStoreError
from hhd.store.reading import Image
from hhd_protocol.abi import Snapshot
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import PAGE_BYTES

VERSION = 1


def pages_of(snapshot: Snapshot) -> dict[int, memoryview]:
    """Return each page of a snapshot by its number, as views of its buffers."""
    pieces = [memoryview(piece).cast("B") for piece in snapshot.pages]
    if any(len(piece) % PAGE_BYTES for piece in pieces):
        pieces = [memoryview(b"".join(pieces))]
    return dict(zip(snapshot.page_numbers, _pages(pieces), strict=True))


def state_of(snapshot: Snapshot) -> bytes:
    """Return what a snapshot carries beside its pages."""
    names: dict[Value, Value] = {name: bits for name, bits in snapshot.globals.items()}
    return encode([VERSION, snapshot.entry, snapshot.memory_bytes, names, snapshot.asyncify_stack_bytes])


def snapshot_of(image: Image) -> Snapshot:
    """Return the snapshot that an image holds; raises DamagedStoreError if its state is not a guest's."""
    try:
        fields = decode(image.state)
    except FormatError as error:
        raise DamagedStoreError(f"The state of an image is not a guest's: {error}.") from error
    match fields:
        case [1, str(entry), int(memory), dict(names), int(stack)]:
            return Snapshot(
                entry=entry,
                memory_bytes=memory,
                page_numbers=image.numbers,
                pages=image.pages,
                globals={str(name): bits for name, bits in names.items() if isinstance(bits, int)},
                asyncify_stack_bytes=stack,
            )
    raise DamagedStoreError("The state of an image is not a guest's.")


def _pages(pieces: list[memoryview]) -> Iterator[memoryview]:
    for piece in pieces:
        for begin in range(0, len(piece), PAGE_BYTES):
            yield piece[begin : begin + PAGE_BYTES]
