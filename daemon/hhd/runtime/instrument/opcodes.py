"""Every instruction that the pass accepts: its immediate operands, what it pops, what it pushes.

Types are written as one letter: `i` i32, `l` i64, `f` f32, `d` f64, `v` v128. An opcode after a prefix byte is written
`prefix << 16 | number`. What is in neither table is refused. A test builds one function for each row and has
wasmtime validate it.
"""

from __future__ import annotations

import enum


class Imm(enum.IntEnum):
    """What follows an opcode."""

    NONE = 0
    BLOCK = 1
    LABEL = 2
    LABELS = 3
    FUNCTION = 4
    INDIRECT = 5
    LOCAL = 6
    GLOBAL = 7
    MEMARG = 8
    ZERO = 9
    TWO_ZEROS = 10
    S32 = 11
    S64 = 12
    FOUR = 13
    EIGHT = 14
    SIXTEEN = 15
    LANE = 16
    MEMARG_LANE = 17
    TYPES = 18


UNREACHABLE, NOP, BLOCK, LOOP, IF, ELSE, END = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0B
BR, BR_IF, BR_TABLE, RETURN, CALL, CALL_INDIRECT = 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11
DROP, SELECT, SELECT_TYPED = 0x1A, 0x1B, 0x1C
LOCAL_GET, LOCAL_SET, LOCAL_TEE, GLOBAL_GET, GLOBAL_SET = 0x20, 0x21, 0x22, 0x23, 0x24
I32_LOAD, I32_STORE, I32_CONST, I64_CONST = 0x28, 0x36, 0x41, 0x42
I32_EQZ, I32_EQ, I32_LT_S, I32_GT_U, I32_LE_U, I32_ADD, I32_SUB = 0x45, 0x46, 0x48, 0x4B, 0x4D, 0x6A, 0x6B
MEMORY_COPY, MEMORY_FILL = 0xFC000A, 0xFC000B

STRUCTURE: dict[int, Imm] = {
    BLOCK: Imm.BLOCK,
    LOOP: Imm.BLOCK,
    IF: Imm.BLOCK,
    ELSE: Imm.NONE,
    END: Imm.NONE,
    UNREACHABLE: Imm.NONE,
    NOP: Imm.NONE,
    BR: Imm.LABEL,
    BR_IF: Imm.LABEL,
    BR_TABLE: Imm.LABELS,
    RETURN: Imm.NONE,
    CALL: Imm.FUNCTION,
    CALL_INDIRECT: Imm.INDIRECT,
    DROP: Imm.NONE,
    SELECT: Imm.NONE,
    SELECT_TYPED: Imm.TYPES,
    LOCAL_GET: Imm.LOCAL,
    LOCAL_SET: Imm.LOCAL,
    LOCAL_TEE: Imm.LOCAL,
    GLOBAL_GET: Imm.GLOBAL,
    GLOBAL_SET: Imm.GLOBAL,
}
"""Instructions whose effect on the operand stack depends on where they stand."""

PLAIN: dict[int, tuple[Imm, str, str]] = {
    0x3F: (Imm.ZERO, "", "i"),
    0x40: (Imm.ZERO, "i", "i"),
    0x41: (Imm.S32, "", "i"),
    0x42: (Imm.S64, "", "l"),
    0x43: (Imm.FOUR, "", "f"),
    0x44: (Imm.EIGHT, "", "d"),
    MEMORY_COPY: (Imm.TWO_ZEROS, "iii", ""),
    MEMORY_FILL: (Imm.ZERO, "iii", ""),
}
"""All others: immediate, popped (deepest first), pushed."""


def _rows(prefix: int, table: str, imm: Imm = Imm.NONE) -> None:
    """Fill PLAIN from lines `first[-last] pops>pushes`, numbers in hexadecimal."""
    for line in table.split("\n"):
        for row in filter(None, (part.strip() for part in line.split(","))):
            numbers, _, effect = row.partition(" ")
            first, _, last = numbers.partition("-")
            pops, _, pushes = effect.partition(">")
            for number in range(int(first, 16), int(last or first, 16) + 1):
                PLAIN[prefix << 16 | number if prefix else number] = (imm, pops, pushes)


_rows(0, "28 i>i, 29 i>l, 2a i>f, 2b i>d, 2c-2f i>i, 30-35 i>l", Imm.MEMARG)
_rows(0, "36 ii>, 37 il>, 38 if>, 39 id>, 3a-3b ii>, 3c-3e il>", Imm.MEMARG)
_rows(
    0,
    """45 i>i, 46-4f ii>i, 50 l>i, 51-5a ll>i, 5b-60 ff>i, 61-66 dd>i
    67-69 i>i, 6a-78 ii>i, 79-7b l>l, 7c-8a ll>l, 8b-91 f>f, 92-98 ff>f, 99-9f d>d, a0-a6 dd>d
    a7 l>i, a8-a9 f>i, aa-ab d>i, ac-ad i>l, ae-af f>l, b0-b1 d>l
    b2-b3 i>f, b4-b5 l>f, b6 d>f, b7-b8 i>d, b9-ba l>d, bb f>d
    bc f>i, bd d>l, be i>f, bf l>d, c0-c1 i>i, c2-c4 l>l""",
)
_rows(0xFC, "0-1 f>i, 2-3 d>i, 4-5 f>l, 6-7 d>l")
_rows(0xFD, "0-a i>v, b iv>, 5c-5d i>v", Imm.MEMARG)
_rows(0xFD, "54-57 iv>v, 58-5b iv>", Imm.MEMARG_LANE)
_rows(0xFD, "c >v", Imm.SIXTEEN)
_rows(0xFD, "d vv>v", Imm.SIXTEEN)
_rows(
    0xFD,
    "15-16 v>i, 17 vi>v, 18-19 v>i, 1a vi>v, 1b v>i, 1c vi>v, 1d v>l, 1e vl>v, 1f v>f, 20 vf>v, 21 v>d, 22 vd>v",
    Imm.LANE,
)
_rows(
    0xFD,
    """e vv>v, f-11 i>v, 12 l>v, 13 f>v, 14 d>v, 23-4c vv>v, 4d v>v, 4e-51 vv>v, 52 vvv>v, 53 v>i, 5e-5f v>v
    60-62 v>v, 63-64 v>i, 65-66 vv>v, 67-6a v>v, 6b-6d vi>v, 6e-73 vv>v, 74-75 v>v, 76-79 vv>v, 7a v>v, 7b vv>v
    7c-7f v>v, 80-81 v>v, 82 vv>v, 83-84 v>i, 85-86 vv>v, 87-8a v>v, 8b-8d vi>v, 8e-93 vv>v, 94 v>v, 95-99 vv>v
    9b-9f vv>v, a0-a1 v>v, a3-a4 v>i, a7-aa v>v, ab-ad vi>v, ae vv>v, b1 vv>v, b5-ba vv>v, bc-bf vv>v
    c0-c1 v>v, c3-c4 v>i, c7-ca v>v, cb-cd vi>v, ce vv>v, d1 vv>v, d5-df vv>v
    e0-e1 v>v, e3 v>v, e4-eb vv>v, ec-ed v>v, ef v>v, f0-f7 vv>v, f8-ff v>v""",
)

REFUSED: dict[int, str] = {
    0x06: "exceptions",
    0x07: "exceptions",
    0x08: "exceptions",
    0x09: "exceptions",
    0x0A: "exceptions",
    0x12: "tail calls",
    0x13: "tail calls",
    0x14: "calls by reference",
    0x15: "calls by reference",
    0x18: "exceptions",
    0x19: "exceptions",
    0x1F: "exceptions",
    0x25: "table reads, whose references a snapshot cannot hold",
    0x26: "changes to a table, which a snapshot would miss",
    0xD0: "references, which a snapshot cannot hold",
    0xD1: "references, which a snapshot cannot hold",
    **dict.fromkeys(range(0xD2, 0xD7), "references, which a snapshot cannot hold"),
    0xFC0008: "passive data segments, whose state a snapshot would miss",
    0xFC0009: "passive data segments, whose state a snapshot would miss",
    0xFC000C: "changes to a table, which a snapshot would miss",
    0xFC000D: "changes to a table, which a snapshot would miss",
    0xFC000E: "changes to a table, which a snapshot would miss",
    0xFC000F: "changes to a table, which a snapshot would miss",
    0xFC0010: "table sizes, which it may not change either",
    0xFC0011: "changes to a table, which a snapshot would miss",
    **dict.fromkeys(range(0xFC0013, 0xFC0017), "wide arithmetic"),
}
"""Instructions of WebAssembly that a guest may not use, each with the feature's name."""


def refusal(opcode: int) -> str:
    """What to call the feature that an unaccepted opcode belongs to."""
    if opcode in REFUSED:
        return REFUSED[opcode]
    prefix = opcode >> 16
    if prefix == 0xFE:
        return "threads"
    if prefix == 0xFB:
        return "garbage-collected objects"
    if prefix == 0xFD and opcode & 0xFFFF >= 0x100:
        return "relaxed SIMD, whose results differ between processors"
    return f"an unknown instruction (0x{opcode:x})"


SIMPLE_BYTES: list[int] = [0] * 256
"""For speed: 1 for every one-byte opcode without immediates that PLAIN knows."""
for _opcode, (_imm, _pops, _pushes) in PLAIN.items():
    if _opcode < 256 and _imm is Imm.NONE:
        SIMPLE_BYTES[_opcode] = 1
