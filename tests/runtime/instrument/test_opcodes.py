"""The instruction table agrees with the validator of the engine, row by row."""

from __future__ import annotations

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE

from hhd.runtime.instrument import leb
from hhd.runtime.instrument.code import decode
from hhd.runtime.instrument.module import FuncType, Module, encode
from hhd.runtime.instrument.opcodes import MEMORY_COPY, PLAIN, REFUSED, STRUCTURE, Imm, refusal
from hhd.runtime.instrument.unwind import EFFECTS

IMMEDIATES = {
    Imm.NONE: b"",
    Imm.MEMARG: b"\0\0",
    Imm.ZERO: b"\0",
    Imm.TWO_ZEROS: b"\0\0",
    Imm.S32: b"\x05",
    Imm.S64: b"\x05",
    Imm.FOUR: bytes(4),
    Imm.EIGHT: bytes(8),
    Imm.SIXTEEN: bytes(16),
    Imm.LANE: b"\0",
    Imm.MEMARG_LANE: b"\0\0\0",
}


def instruction(opcode: int) -> bytes:
    """One instruction with immediates of zeros."""
    start = bytes([opcode]) if opcode < 256 else bytes([opcode >> 16]) + leb.u32(opcode & 0xFFFF)
    return start + IMMEDIATES[PLAIN[opcode][0]]


def module_of(opcode: int, pops: bytes, pushes: bytes) -> bytes:
    """A module with one function that takes what the instruction pops and returns what it pushes."""
    gets = b"".join(b"\x20" + leb.u32(index) for index in range(len(pops)))
    body = b"\0" + gets + instruction(opcode) + b"\x0b"
    return encode(Module(types=(FuncType(pops, pushes),), function_types=(0,), memory=(1, None), bodies=(body,)))


@pytest.mark.parametrize("prefix", [0, 0xFC, 0xFD])
def test_every_row_is_what_the_engine_says(prefix: int) -> None:
    rows = [code for code in PLAIN if code >> 16 == prefix]
    assert len(rows) > 8
    for opcode in rows:
        pops, pushes = EFFECTS[opcode]
        raw = module_of(opcode, pops, pushes)
        wasmtime.Module.validate(ENGINE, raw)
        assert len(decode(b"\0" + instruction(opcode) + b"\x0b", ()).instrs) == 2, f"0x{opcode:x}"


def test_the_engine_would_notice_a_wrong_row() -> None:
    with pytest.raises(wasmtime.WasmtimeError):
        wasmtime.Module.validate(ENGINE, module_of(0x6A, b"\x7f\x7e", b"\x7f"))


def test_no_row_is_missing() -> None:
    """Every opcode that the engine takes is in a table, or is refused by name."""
    unknown = []
    for code in [*range(0xFB), *(0xFC0000 + n for n in range(32)), *(0xFD0000 + n for n in range(0x120))]:
        if code in PLAIN or code in STRUCTURE or code in REFUSED or "unknown" not in refusal(code):
            continue
        start = bytes([code]) if code < 256 else bytes([code >> 16]) + leb.u32(code & 0xFFFF)
        for tail in (b"", b"\0", b"\0\0", bytes(16)):
            body = b"\0" + b"\0" + start + tail + b"\0\x0b"  # after `unreachable` any operands would do
            raw = encode(Module(types=(FuncType(b"", b""),), function_types=(0,), memory=(1, None), bodies=(body,)))
            try:
                wasmtime.Module.validate(ENGINE, raw)
            except wasmtime.WasmtimeError:
                continue
            unknown.append(hex(code))
    assert unknown == []
    assert MEMORY_COPY in PLAIN
