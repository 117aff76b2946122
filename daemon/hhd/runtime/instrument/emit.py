"""Writes instructions of one function, its own locals beside the program's, and keeps the types of its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hhd.runtime.instrument import leb
from hhd.runtime.instrument.frames import FrameFunctions, Shelf
from hhd.runtime.instrument.shape import Construct
from hhd_protocol.errors import FormatError

VOID_BLOCK, VOID_LOOP, VOID_IF = b"\x02\x40", b"\x03\x40", b"\x04\x40"
END, ELSE, RETURN = b"\x0b", b"\x05", b"\x0f"
I32_CONST, DROP, SELECT = b"\x41", b"\x1a", b"\x1b"
EQZ, LT_S, LE_U, ADD, SUB = b"\x45", b"\x48", b"\x4d", b"\x6a", b"\x6b"


@dataclass(frozen=True, kw_only=True)
class Names:
    """Indices, in the module to be written, of what the rewritten code uses."""

    state: int
    pointer: int
    countdown: int
    frames: FrameFunctions
    shelf: Shelf
    yield_import: int
    first_defined: int
    resuming: Mapping[int, int]
    slots: Mapping[int, int]

    def function(self, index: int) -> int:
        """Where a function of the module that was read is in the module to be written: one import later."""
        return index if index < self.first_defined else index + 1

    def resuming_function(self, index: int) -> int:
        """What to call to rewind into a function: its resuming form, or the import itself."""
        return self.resuming.get(index, index)


@dataclass(kw_only=True)
class Open:
    """A construct that is being written: its label's depth, and the operands around it that wait in locals."""

    construct: Construct
    level: int
    height: int
    waiting: list[int] = field(default_factory=list)
    params: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    counter: int = -1
    saved: list[int] = field(default_factory=list)


class Emitter:
    """Code that is being written: bytes, locals, and a stack of operand types as a validator keeps it."""

    def __init__(self, local_types: bytes, names: Names) -> None:
        self.names = names
        self.local_types = bytearray(local_types)
        self.own_locals = len(local_types)
        self.free: dict[int, list[int]] = {}
        self.out = bytearray()
        self.stack: list[int] = []
        self.path: list[Open] = []
        self.depth = 0

    def fresh(self, kind: int) -> int:
        """A local of ours that nobody uses now."""
        if self.free.get(kind):
            return self.free[kind].pop()
        self.local_types.append(kind)
        return len(self.local_types) - 1

    def release(self, locals_: Sequence[int]) -> None:
        for local in reversed(locals_):
            self.free.setdefault(self.local_types[local], []).append(local)

    def get(self, local: int) -> None:
        self.out += b"\x20" + leb.u32(local)

    def assign(self, local: int) -> None:
        self.out += b"\x21" + leb.u32(local)

    def get_all(self, locals_: Sequence[int]) -> None:
        for local in locals_:
            self.get(local)

    def assign_all(self, locals_: Sequence[int]) -> None:
        """Pop into `locals_`, the top of the stack into the last."""
        for local in reversed(locals_):
            self.assign(local)

    def const(self, value: int) -> None:
        self.out += I32_CONST + leb.signed(value)

    # Operand types

    def pop(self, kinds: bytes) -> None:
        height = self.path[-1].height
        if len(self.stack) - len(kinds) < height:
            raise FormatError("the code of the module takes operands that are not there")
        for kind in reversed(kinds):
            if self.stack.pop() != kind:
                raise FormatError("the code of the module takes an operand of another type")

    def pop_any(self) -> int:
        if len(self.stack) <= self.path[-1].height:
            raise FormatError("the code of the module takes operands that are not there")
        return self.stack.pop()

    def local_type(self, local: object) -> int:
        assert isinstance(local, int)
        if local >= self.own_locals:
            raise FormatError("the code of the module names a local that it does not have")
        return self.local_types[local]

    def spill_rest(self) -> list[int]:
        """Move all operands of the current construct into locals; return these, the deepest first."""
        height = self.path[-1].height
        locals_ = [self.fresh(kind) for kind in self.stack[height:]]
        self.assign_all(locals_)
        del self.stack[height:]
        return locals_

    def unspill(self, locals_: list[int]) -> None:
        self.get_all(locals_)
        self.stack += [self.local_types[local] for local in locals_]
        self.release(locals_)


def declaration(kinds: bytes) -> bytes:
    """Declare locals: runs of one type share an entry."""
    runs: list[tuple[int, int]] = []
    for kind in kinds:
        if runs and runs[-1][1] == kind:
            runs[-1] = (runs[-1][0] + 1, kind)
        else:
            runs.append((1, kind))
    return leb.vector([leb.u32(count) + bytes([kind]) for count, kind in runs])
