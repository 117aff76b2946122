"""The body of one function as a list of instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.leb import Reader
from hhd.runtime.instrument.module import VALUE_BYTES, FuncType, value_type
from hhd.runtime.instrument.opcodes import PLAIN, SIMPLE_BYTES, STRUCTURE, Imm
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import GUEST_LOCALS_MAX, GUEST_NESTING_MAX


class Instr(NamedTuple):
    """One instruction: opcode, parsed operand, and its bytes as they stood.

    `operand` is the label, function, local, global or type index; for `call_indirect` the type index; for a block its
    FuncType; for `br_table` the labels, default last; for a typed select its type; else 0.
    """

    opcode: int
    operand: int | FuncType | tuple[int, ...]
    raw: bytes


@dataclass(frozen=True, kw_only=True)
class Body:
    """Types of the declared locals (parameters not among them) and the instructions, the last `end` included."""

    local_types: bytes
    instrs: list[Instr] = field(repr=False)


def decode(raw: bytes, types: tuple[FuncType, ...]) -> Body:
    """Read a function body.

    Raises FormatError for what is damaged or what a guest may not use, TooLargeError past a bound.
    """
    reader = Reader(raw)
    return Body(local_types=_locals(reader), instrs=_instrs(reader, types))


def _locals(reader: Reader) -> bytes:
    kinds = bytearray()
    for _ in range(reader.count(2, "groups of locals")):
        count = reader.u32()
        if len(kinds) + count > GUEST_LOCALS_MAX:
            raise TooLargeError(f"a function of the module has more than {GUEST_LOCALS_MAX} locals")
        kinds += bytes([value_type(reader.byte())]) * count
    return bytes(kinds)


def _instrs(reader: Reader, types: tuple[FuncType, ...]) -> list[Instr]:
    out: list[Instr] = []
    depth = 1
    raw, end = reader.raw, reader.end
    while depth:
        start = reader.pos
        if start >= end:
            raise FormatError("a function of the module does not end")
        code = raw[start]
        if SIMPLE_BYTES[code]:
            reader.pos = start + 1
            out.append(_SIMPLE[code])
            continue
        reader.pos = start + 1
        if code >= 0xFB:
            code = code << 16 | reader.u32()
        if code in PLAIN:
            _skip(reader, PLAIN[code][0])
            out.append(Instr(code, 0, raw[start : reader.pos]))
            continue
        if code not in STRUCTURE:
            raise FormatError(f"the module uses {op.refusal(code)}, which a guest may not")
        operand = _operand(reader, STRUCTURE[code], types)
        if code in _BRANCHES and not _within(operand, depth):
            raise FormatError("a branch in the module leads out of its function")
        if code == op.END:
            depth -= 1
        elif code in (op.BLOCK, op.LOOP, op.IF):
            depth += 1
            if depth > GUEST_NESTING_MAX:
                raise TooLargeError(f"a function of the module is nested deeper than {GUEST_NESTING_MAX}")
        out.append(Instr(code, operand, raw[start : reader.pos]))
    reader.done("the end of a function")
    return out


_BRANCHES = (op.BR, op.BR_IF, op.BR_TABLE)


def _within(labels: int | FuncType | tuple[int, ...], depth: int) -> bool:
    return max(labels) < depth if isinstance(labels, tuple) else isinstance(labels, int) and labels < depth


_SIMPLE = [Instr(code, 0, bytes([code])) for code in range(256)]
_FIXED_BYTES = {Imm.FOUR: 4, Imm.EIGHT: 8, Imm.SIXTEEN: 16, Imm.LANE: 1}


def _skip(reader: Reader, imm: Imm) -> None:
    if imm in (Imm.MEMARG, Imm.MEMARG_LANE):
        if reader.u32() >= 32:
            raise FormatError("the module uses more than one memory, which a guest may not")
        reader.u32()
        if imm is Imm.MEMARG_LANE:
            reader.byte()
    elif imm is Imm.S32:
        reader.signed(32)
    elif imm is Imm.S64:
        reader.signed(64)
    elif imm in (Imm.ZERO, Imm.TWO_ZEROS):
        if any(reader.take(1 if imm is Imm.ZERO else 2)):
            raise FormatError("the module uses more than one memory, which a guest may not")
    elif imm in _FIXED_BYTES:
        reader.take(_FIXED_BYTES[imm])


def _operand(reader: Reader, imm: Imm, types: tuple[FuncType, ...]) -> int | FuncType | tuple[int, ...]:
    if imm is Imm.BLOCK:
        return _block_type(reader, types)
    if imm is Imm.LABELS:
        count = reader.count(1, "labels")
        return tuple(reader.u32() for _ in range(count + 1))
    if imm is Imm.INDIRECT:
        index = reader.u32()
        if index >= len(types) or reader.u32() != 0:
            raise FormatError("the module calls through a type or table that it does not have")
        return index
    if imm is Imm.TYPES:
        if reader.u32() != 1:
            raise FormatError("the module has a select of more than one value")
        return value_type(reader.byte())
    return 0 if imm is Imm.NONE else reader.u32()


def _block_type(reader: Reader, types: tuple[FuncType, ...]) -> FuncType:
    byte = reader.raw[reader.pos] if reader.left() else 0
    if byte == 0x40:
        reader.pos += 1
        return VOID
    if byte in VALUE_BYTES:
        reader.pos += 1
        return FuncType(b"", bytes([byte]))
    index = reader.signed(33)
    if not 0 <= index < len(types):
        raise FormatError("a block of the module has a type that is unknown, which a snapshot cannot hold")
    return types[index]


VOID = FuncType(b"", b"")
