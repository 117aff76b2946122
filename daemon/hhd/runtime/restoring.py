"""Puts a snapshot into a fresh instance; one from a file may be anybody's, so each part is held to its bounds."""

from __future__ import annotations

from hhd.base.errors import RefusedError
from hhd.runtime import wasmtime_c as c
from hhd.runtime.instance import Instance
from hhd.runtime.module import Shape
from hhd.runtime.pause_stack import ROOM_BYTES, PauseStack
from hhd_protocol.abi import COUNTDOWN, ENTRY, Snapshot
from hhd_protocol.limits import PAGE_BYTES, WASM_PAGE_BYTES


def restore(instance: Instance, stack: PauseStack, shape: Shape, snapshot: Snapshot, memory_bytes_max: int) -> None:
    """Write memory and globals. Raises RefusedError, with one sentence, for what cannot belong to this module."""
    if snapshot.entry != ENTRY:
        raise misfit("it enters by another door")
    size = snapshot.memory_bytes
    if size % WASM_PAGE_BYTES or not stack.end <= size <= memory_bytes_max:
        raise misfit("its memory has a size that is not allowed")
    if set(snapshot.globals) != set(shape.saved_globals):
        raise misfit("its globals are not those of the module")
    if not 0 <= snapshot.asyncify_stack_bytes <= ROOM_BYTES:
        raise misfit("its stack is larger than the room for it")
    if not instance.grow(size):
        raise misfit("its memory has a size that is not allowed")
    _write_pages(instance.view(), snapshot)
    for name, bits in snapshot.globals.items():
        if not 0 <= bits < 1 << (32 if shape.globals[name] in (c.I32, c.F32) else 64):
            raise misfit("a global does not fit its type")
        instance.set_global_bits(name, bits)
    instance.set_global_bits(COUNTDOWN, 0)
    stack.restored(snapshot.asyncify_stack_bytes)


def misfit(why: str) -> RefusedError:
    """The refusal of a snapshot."""
    return RefusedError(f"The snapshot was refused: {why}.")


def _write_pages(view: memoryview, snapshot: Snapshot) -> None:
    """Copy neighbouring pages at once, as far as the piece that holds them reaches."""
    pieces, piece = iter(snapshot.pages), memoryview(b"")
    numbers, before, pages = snapshot.page_numbers, -1, len(view) // PAGE_BYTES
    at = 0
    while at < len(numbers):
        if not before < numbers[at] < pages:
            raise misfit("its pages are out of order or outside its memory")
        if len(piece) < PAGE_BYTES:
            piece = _joined(piece, memoryview(next(pieces)).cast("B"))
            continue
        first, count, most = numbers[at], 1, len(piece) // PAGE_BYTES
        while count < most and at + count < len(numbers) and numbers[at + count] == first + count < pages:
            count += 1
        length = count * PAGE_BYTES
        view[first * PAGE_BYTES : first * PAGE_BYTES + length] = piece[:length]
        piece, before, at = piece[length:], first + count - 1, at + count


def _joined(rest: memoryview, piece: memoryview) -> memoryview:
    """What is left of one piece with the next: a page may be split between them."""
    return memoryview(bytes(rest) + bytes(piece)) if rest else piece
