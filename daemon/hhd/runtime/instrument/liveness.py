"""Which locals of a function are still needed after each of its instructions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.code import Instr

_ROUNDS_MAX = 12
"""Rounds until the loops agree: nested loops need one each and one more; past it, every local counts as needed."""


def live_after(instrs: Sequence[Instr], places: Collection[int], local_count: int) -> dict[int, int]:
    """For each place in `places`, the locals (bit n for local n) that may be read after the instruction there.

    Walks backwards until what each loop needs at its head stays the same.
    """
    heads: dict[int, int] = {}
    loop_at_end = _loops_by_end(instrs)
    for _ in range(_ROUNDS_MAX):
        found, seen = _round(instrs, places, heads, loop_at_end)
        if seen == heads:
            return found
        heads = seen
    return dict.fromkeys(places, (1 << local_count) - 1)


def _loops_by_end(instrs: Sequence[Instr]) -> dict[int, int]:
    """Place of a loop's `end` to the place of its `loop`."""
    opened: list[int] = []
    out = {}
    for place, instr in enumerate(instrs):
        if instr.opcode in (op.BLOCK, op.LOOP, op.IF):
            opened.append(place)
        elif instr.opcode == op.END and opened:
            start = opened.pop()
            if instrs[start].opcode == op.LOOP:
                out[place] = start
    return out


def _round(
    instrs: Sequence[Instr], places: Collection[int], heads: dict[int, int], loop_at_end: dict[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    found: dict[int, int] = {}
    seen: dict[int, int] = {}
    live = 0
    labels: list[int] = []
    # For each open construct, what is needed after it, and what its else branch needs (-1: no else was met).
    after: list[tuple[int, int]] = []
    for place in range(len(instrs) - 1, -1, -1):
        code, operand, _ = instrs[place]
        if place in places:
            found[place] = live
        if code == op.LOCAL_GET:
            assert isinstance(operand, int)
            live |= 1 << operand
        elif code in (op.LOCAL_SET, op.LOCAL_TEE):
            assert isinstance(operand, int)
            live &= ~(1 << operand)
        elif code == op.END:
            labels.append(heads.get(loop_at_end[place], 0) if place in loop_at_end else live)
            after.append((live, -1))
        elif code == op.ELSE:
            beyond, _ = after.pop()
            after.append((beyond, live))
            live = beyond
        elif code in (op.BLOCK, op.LOOP, op.IF):
            labels.pop()
            beyond, otherwise = after.pop()
            if code == op.LOOP:
                seen[place] = live
            elif code == op.IF:
                live |= beyond if otherwise < 0 else otherwise
        elif code == op.BR:
            assert isinstance(operand, int)
            live = labels[-1 - operand]
        elif code == op.BR_IF:
            assert isinstance(operand, int)
            live |= labels[-1 - operand]
        elif code == op.BR_TABLE:
            assert isinstance(operand, tuple)
            live = 0
            for label in set(operand):
                live |= labels[-1 - label]
        elif code in (op.RETURN, op.UNREACHABLE):
            live = 0
    return found, seen
