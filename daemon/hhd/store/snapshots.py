"""A guest's snapshot as an image and back: pages by number, and the rest as the image's state (`store.md`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from hhd.store.errors import DamagedStoreError
from hhd.store.reading import Image
from hhd_protocol.abi import Snapshot
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import ASYNCIFY_STACK_BYTES_MAX, MEMORY_BYTES_MAX, PAGE_BYTES

VERSION = 1


class SnapshotPages(Mapping[int, memoryview]):
    """The pages of a snapshot by number, as views of its buffers; making it costs nothing for each page."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.numbers = snapshot.page_numbers
        pieces = [memoryview(piece).cast("B") for piece in snapshot.pages]
        if any(len(piece) % PAGE_BYTES for piece in pieces):
            pieces = [memoryview(b"".join(pieces))]
        self._pieces = pieces
        self._ends = list(accumulate(len(piece) // PAGE_BYTES for piece in pieces))

    def chosen(self, numbers: Iterable[int]) -> dict[int, memoryview]:
        """Return those of the pages `numbers` that there are, in that order."""
        if len(self._pieces) != 1:
            return {number: page for number in numbers if (page := self.get(number)) is not None}
        known, piece, count, found = self.numbers, self._pieces[0], len(self.numbers), {}
        for number in numbers:
            index = bisect_left(known, number)
            if index < count and known[index] == number:
                found[number] = piece[index * PAGE_BYTES : (index + 1) * PAGE_BYTES]
        return found

    def __getitem__(self, number: int) -> memoryview:
        index = bisect_left(self.numbers, number)
        if index == len(self.numbers) or self.numbers[index] != number:
            raise KeyError(number)
        piece = bisect_right(self._ends, index)
        within = index - (self._ends[piece - 1] if piece else 0)
        return self._pieces[piece][within * PAGE_BYTES : (within + 1) * PAGE_BYTES]

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)


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
        case [1, str(entry), int(memory), dict(names), int(stack)] if _plausible(memory, names, stack):
            return Snapshot(
                entry=entry,
                memory_bytes=memory,
                page_numbers=image.numbers,
                pages=image.pages,
                globals={str(name): bits for name, bits in names.items() if type(bits) is int},
                asyncify_stack_bytes=stack,
            )
    raise DamagedStoreError("The state of an image is not a guest's.")


def _plausible(memory: int, names: Mapping[Value, Value], stack: int) -> bool:
    """Say whether these can be a guest's: numbers in bounds, globals of at most 64 bits."""
    bits = all(type(name) is str and type(one) is int and 0 <= one < 1 << 64 for name, one in names.items())
    return 0 <= memory <= MEMORY_BYTES_MAX and 0 <= stack <= ASYNCIFY_STACK_BYTES_MAX and bits
