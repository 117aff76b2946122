"""The functions that write and read frames on the Asyncify stack, made as they are asked for.

A frame is the live locals of a function at one site, grouped by type, then the trailer: its slot in the table and the
number of the site. Up to eight values of a type are written by one call, so that a site costs few bytes of code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hhd.runtime.instrument import leb
from hhd.runtime.instrument.module import F32, F64, I32, I64, V128, VALUE_BYTES, FuncType, Global

ZERO = {
    I32: b"\x41\0",
    I64: b"\x42\0",
    F32: b"\x43" + bytes(4),
    F64: b"\x44" + bytes(8),
    V128: b"\xfd\x0c" + bytes(16),
}
"""The instruction that pushes a zero of each type."""
TRAILER_BYTES = 8
"""Slot in the table, number of the site."""
_GROUP_MAX = 8
"""Values of one call: about as many as an engine passes in registers."""
_ORDER = (I32, I64, F32, F64, V128)
_LOAD = {I32: b"\x28\x02", I64: b"\x29\x02", F32: b"\x2a\x02", F64: b"\x2b\x02", V128: b"\xfd\x00\x02"}
_STORE = {I32: b"\x36\x02", I64: b"\x37\x02", F32: b"\x38\x02", F64: b"\x39\x02", V128: b"\xfd\x0b\x02"}


class FrameFunctions:
    """Which of these functions exist: `push` or `pull`, of so many values of a type."""

    def __init__(self, *, first: int, pointer_global: int) -> None:
        """`first` is the function index of the first one; `pointer_global` holds the address of the two words."""
        self.first = first
        self.pointer = b"\x23" + leb.u32(pointer_global)
        self.made: dict[tuple[bool, int, int], int] = {}

    def call(self, *, push: bool, kind: int, count: int) -> bytes:
        """The instruction that writes `count` values of a type from the stack, or reads as many back."""
        index = self.made.setdefault((push, kind, count), self.first + len(self.made))
        return b"\x10" + leb.u32(index)

    def functions(self) -> Iterator[tuple[FuncType, bytes]]:
        """Type and body of each function that was asked for, in the order of their indices."""
        for push, kind, count in self.made:
            values = bytes([kind]) * count
            if push:
                yield FuncType(values, b""), self._push(kind, count)
            else:
                yield FuncType(b"", values), self._pull(kind, count)

    def _push(self, kind: int, count: int) -> bytes:
        """Traps before it writes when there is no room."""
        at, size = leb.u32(count), leb.signed(count * VALUE_BYTES[kind])
        out = bytearray(b"\x01\x01\x7f")
        out += self.pointer + b"\x28\x02\x04" + self.pointer + b"\x28\x02\x00\x22" + at + b"\x6b"
        out += b"\x41" + size + b"\x49\x04\x40\x00\x0b"
        for place in range(count):
            out += b"\x20" + at + b"\x20" + leb.u32(place) + _STORE[kind] + leb.u32(place * VALUE_BYTES[kind])
        return bytes(out + self.pointer + b"\x20" + at + b"\x41" + size + b"\x6a\x36\x02\x00\x0b")

    def _pull(self, kind: int, count: int) -> bytes:
        size = leb.signed(count * VALUE_BYTES[kind])
        out = bytearray(b"\x01\x01\x7f" + self.pointer + self.pointer + b"\x28\x02\x00")
        out += b"\x41" + size + b"\x6b\x22\x00\x36\x02\x00"
        for place in range(count):
            out += b"\x20\x00" + _LOAD[kind] + leb.u32(place * VALUE_BYTES[kind])
        return bytes(out + b"\x0b")


class Shelf:
    """Globals in which a tight loop puts its values while it calls `yield`, so that none is live across the call.

    An engine would otherwise keep some of them in memory all the time, for the sake of a call that is hardly ever made.
    They hold nothing while the guest is paused.
    """

    def __init__(self, *, first: int) -> None:
        """`first` is the index of the first one."""
        self.first = first
        self.made: dict[tuple[int, int], int] = {}

    def places(self, kinds: Sequence[int]) -> list[int]:
        """A global for each of these types, all different."""
        used: dict[int, int] = {}
        out = []
        for kind in kinds:
            number = used[kind] = used.get(kind, 0) + 1
            out.append(self.made.setdefault((kind, number), self.first + len(self.made)))
        return out

    def globals(self) -> list[Global]:
        """Those that were asked for, in the order of their indices."""
        return [Global(value_type=kind, mutable=True, init=ZERO[kind] + b"\x0b") for kind, _ in self.made]


def groups(locals_: Sequence[int], types: Sequence[int]) -> list[tuple[int, list[int]]]:
    """`locals_` (whose types `types` gives by local) in groups of one type, in the order in which they are pushed."""
    out = []
    for kind in _ORDER:
        alike = [local for local in locals_ if types[local] == kind]
        out += [(kind, alike[start : start + _GROUP_MAX]) for start in range(0, len(alike), _GROUP_MAX)]
    return out
