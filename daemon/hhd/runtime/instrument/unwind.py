"""Rewrites one function so that a run can leave it at any site and come back to the same site later.

A *site* is a call that may pause, or an interrupt check. After each, the function looks at the state; while the host
unwinds, it writes a *frame* (the locals that are still needed, its slot in the table, the number of the site) and
returns. While the host rewinds, its resuming form reads the number of the site from the last frame and jumps there:
the body of each construct with sites begins with a `br_table` over them, out of nested blocks that end where the sites
are. At the site it takes its frame off, restores the locals, and makes the call again.

Each function is written in two forms: the one that is called has no jumps and no test for rewinding, the *resuming*
form is entered by a rewind alone, and calls the first form of others once it has arrived.

Two facts make this cheap while nothing is paused. Operands that lie on the stack across a site go to locals, which
costs an optimising engine nothing; and only what is live is saved, so nothing else is kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hhd.runtime.instrument import leb
from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.callgraph import Plan
from hhd.runtime.instrument.code import Body, Instr
from hhd.runtime.instrument.emit import (
    DROP,
    ELSE,
    END,
    EQZ,
    I32_CONST,
    LE_U,
    SELECT,
    SUB,
    VOID_BLOCK,
    VOID_IF,
    VOID_LOOP,
    Names,
    Open,
    declaration,
)
from hhd.runtime.instrument.module import F32, F64, I32, I64, V128, Module
from hhd.runtime.instrument.opcodes import PLAIN
from hhd.runtime.instrument.shape import Construct, is_pausing, label_types
from hhd.runtime.instrument.sites import SiteWriter
from hhd_protocol.errors import FormatError

_TYPE_OF = {"i": I32, "l": I64, "f": F32, "d": F64, "v": V128}
EFFECTS = {
    code: (bytes(_TYPE_OF[one] for one in pops), bytes(_TYPE_OF[one] for one in pushes))
    for code, (_, pops, pushes) in PLAIN.items()
}
_TABLE_SHARE = 8
"""Entries of a jump table for each of its targets, at most: constructs within constructs must not multiply."""
_COUNTDOWN_MAX = 2**31 - 1


def rewrite(function: int, body: Body, module: Module, plan: Plan, names: Names, *, resuming: bool) -> bytes:
    """Return the new body of `function`: the form that is called, or the one that a rewind enters.

    Raises FormatError when the code does not type-check as far as the pass looks.
    """
    return _Writer(function, body, module, plan, names, resuming).run()


def passed_through(body: Body, module: Module, plan: Plan, names: Names, *, doomed: bool) -> bytes:
    """Return the body of a function in which nothing can pause: the same, with new function indices.

    A `doomed` one calls others that could pause, so it first puts the countdown out of their reach; should they pause
    even so, it traps, which it would have done anyway.
    """
    out = bytearray(declaration(body.local_types))
    if doomed:
        out += I32_CONST + leb.signed(_COUNTDOWN_MAX) + b"\x24" + leb.u32(names.countdown)
    for instr in body.instrs:
        if instr.opcode == op.CALL:
            assert isinstance(instr.operand, int)
            out += b"\x10" + leb.u32(names.function(instr.operand))
        else:
            out += instr.raw
        if doomed and is_pausing(instr, module, plan):
            out += b"\x23" + leb.u32(names.state) + VOID_IF + b"\0" + END
    return bytes(out)


class _Writer(SiteWriter):
    """Writes the code in one walk, keeping the types of the operands as a validator does."""

    # The walk

    def run(self) -> bytes:
        whole = self.shape.constructs[-1]
        self.open_flat(whole)
        for place, instr in enumerate(self.shape.instrs):
            self.write(place, instr)
        self.out += END
        return declaration(bytes(self.local_types[len(self.type.params) :])) + bytes(self.out)

    def write(self, place: int, instr: Instr) -> None:
        code, operand, raw = instr
        if code in EFFECTS:
            pops, pushes = EFFECTS[code]
            self.pop(pops)
            self.stack += pushes
            self.out += raw
        elif place in self.shape.sites:
            # The check of a tight loop was written with its head.
            if self.tight is None:
                self.write_site(place, instr)
        elif code == op.LOCAL_GET:
            self.stack.append(self.local_type(operand))
            self.out += raw
        elif code == op.LOCAL_SET:
            self.pop(bytes([self.local_type(operand)]))
            self.out += raw
        elif code == op.LOCAL_TEE:
            self.pop(bytes([self.local_type(operand)]))
            self.stack.append(self.local_type(operand))
            self.out += raw
        else:
            _WRITERS[code](self, place, instr)

    def write_global(self, place: int, instr: Instr) -> None:
        assert isinstance(instr.operand, int)
        if instr.operand >= len(self.module.globals):
            raise FormatError("the code of the module names a global that it does not have")
        kind = self.module.globals[instr.operand].value_type
        if instr.opcode == op.GLOBAL_GET:
            self.stack.append(kind)
        else:
            self.pop(bytes([kind]))
        self.out += instr.raw

    def write_simple(self, place: int, instr: Instr) -> None:
        if instr.opcode == op.DROP:
            self.pop_any()
        elif instr.opcode != op.NOP:
            self.pop(bytes([I32]))
            kind = self.pop_any()
            self.pop(bytes([kind]))
            self.stack.append(kind)
        self.out += instr.raw

    def write_plain_call(self, place: int, instr: Instr) -> None:
        kind = self.callee_type(instr)
        self.pop(kind.params)
        self.stack += kind.results
        self.write_call(instr)

    # Constructs

    def write_open(self, place: int, instr: Instr) -> None:
        construct = self.shape.constructs[place]
        if construct.flat:
            self.open_flat(construct)
            return
        if construct.opcode == op.IF:
            self.pop(bytes([I32]))
        self.pop(construct.type.params)
        self.out += instr.raw
        self.depth += 1
        self.path.append(Open(construct=construct, level=self.depth, height=len(self.stack)))
        self.stack += construct.type.params

    def open_flat(self, construct: Construct) -> None:
        """Begin a construct whose operands travel in locals, so that a rewind can enter it with an empty stack."""
        kind = construct.type
        one = Open(construct=construct, level=0, height=0)
        condition = -1
        if construct.opcode == op.IF:
            self.pop(bytes([I32]))
            condition = self.fresh(I32)
            self.assign(condition)
        if construct.start >= 0:
            self.pop(kind.params)
        one.params = [self.fresh(each) for each in kind.params]
        self.assign_all(one.params)
        one.results = [self.fresh(each) for each in kind.results]
        if construct.opcode == op.IF and construct.otherwise < 0:
            self.get_all(one.params)
            self.assign_all(one.results)
        if self.path:
            one.waiting = self.spill_rest()
        has_sites = construct.low <= construct.high
        if construct.start >= 0 and has_sites:
            self.land_here()
        if construct.opcode == op.IF:
            self.write_choice(construct, condition, has_sites)
            self.release([condition])
        self.path.append(one)
        if self.has_only_its_check(construct):
            self.open_tight_loop(one)
            return
        self.out += {op.BLOCK: VOID_BLOCK, op.LOOP: VOID_LOOP, op.IF: VOID_IF}[construct.opcode]
        self.depth += 1
        one.level, one.height = self.depth, len(self.stack)
        self.begin_arm(construct.stops)

    def write_choice(self, construct: Construct, condition: int, has_sites: bool) -> None:
        """Push the condition of an `if`; while rewinding, whether the site is in its first arm."""
        if not has_sites or not self.resuming:
            self.get(condition)
            return
        self.get(self.rewinding)
        self.const(construct.then_high)
        self.out += LE_U
        self.get(condition)
        self.get(self.rewinding)
        self.out += SELECT

    def begin_arm(self, stops: Sequence[tuple[int, int]]) -> None:
        """Open a block for each place where a rewind may land in this body, and jump to the right one."""
        one = self.path[-1]
        if stops and self.resuming:
            self.out += VOID_BLOCK * (len(stops) + 1)
            if one.construct.start < 0:
                self.write_entry()
            else:
                self.get(self.rewinding)
                self.out += EQZ + b"\x0d\x00"
            self.write_jump(stops)
            self.out += END
            self.depth += len(stops)
        self.get_all(one.params)
        self.stack += one.construct.type.params

    def write_jump(self, stops: Sequence[tuple[int, int]]) -> None:
        """Branch to the block of the stop in whose range the site is: by a table where it is dense."""
        first, last = stops[0][0], stops[-1][1]
        if last - first >= _TABLE_SHARE * len(stops):
            for place, (_, high) in enumerate(stops):
                self.get(self.rewinding)
                self.const(high)
                self.out += LE_U + b"\x0d" + leb.u32(place + 1)
            return
        self.get(self.rewinding)
        self.const(first)
        self.out += SUB
        table = [leb.u32(place + 1) for place, (low, high) in enumerate(stops) for _ in range(low, high + 1)]
        self.out += b"\x0e" + leb.u32(len(table)) + b"".join(table) + b"\x00"

    def write_entry(self) -> None:
        """Read from the last frame at which site the function was left."""
        self.out += self.names.frames.call(push=False, kind=I32, count=2)
        self.assign(self.rewinding)
        self.out += DROP

    def write_else(self, place: int, instr: Instr) -> None:
        one = self.path[-1]
        if not one.construct.flat:
            del self.stack[one.height :]
            self.stack += one.construct.type.params
            self.out += instr.raw
            return
        self.finish_arm(place)
        self.out += ELSE
        self.begin_arm(one.construct.else_stops)

    def write_end(self, place: int, instr: Instr) -> None:
        one = self.path[-1]
        if one.construct.flat:
            self.finish_arm(place)
        else:
            del self.stack[one.height :]
        self.path.pop()
        if one is self.tight:
            self.close_tight_loop(one)
        else:
            self.out += END
            self.depth -= 1
        if one.construct.flat:
            self.release(one.params)
            if one.waiting:
                self.unspill(one.waiting)
            self.get_all(one.results)
            self.release(one.results)
        self.stack += one.construct.type.results

    def finish_arm(self, place: int) -> None:
        """Put the results of a flat construct's arm into their locals, unless its end is never reached."""
        one = self.path[-1]
        if place > 0 and self.shape.instrs[place - 1].opcode in _NO_RETURN:
            del self.stack[one.height :]
            return
        self.pop(one.construct.type.results)
        if len(self.stack) != one.height:
            raise FormatError("the code of the module leaves operands behind")
        self.assign_all(one.results)
        if one is self.tight:
            self.keep_counter()

    # Branches

    def target(self, label: int) -> Open:
        return self.path[-1 - label]

    def carriers(self, target: Open) -> list[int]:
        return target.params if target.construct.opcode == op.LOOP else target.results

    def write_branch(self, place: int, instr: Instr) -> None:
        assert isinstance(instr.operand, int)
        target = self.target(instr.operand)
        kinds = label_types(target.construct)
        conditional = instr.opcode == op.BR_IF
        if conditional:
            self.pop(bytes([I32]))
        self.pop(kinds)
        if kinds and target.construct.flat:
            if conditional:
                self.assign(self.scratch)
            self.assign_all(self.carriers(target))
            if conditional:
                self.get_all(self.carriers(target))
                self.get(self.scratch)
        if conditional:
            self.stack += kinds
        if not self.leaves_tight_loop(target):
            self.out += bytes([instr.opcode]) + leb.u32(self.depth - target.level)
        elif conditional:
            self.out += VOID_IF
            self.keep_counter()
            self.out += b"\x0c" + leb.u32(self.depth + 1 - target.level) + END
        else:
            self.keep_counter()
            self.out += b"\x0c" + leb.u32(self.depth - target.level)

    def write_branch_table(self, place: int, instr: Instr) -> None:
        assert isinstance(instr.operand, tuple)
        self.pop(bytes([I32]))
        targets = [self.target(label) for label in instr.operand]
        kinds = label_types(targets[0].construct)
        self.pop(kinds)
        if kinds and targets[0].construct.flat:
            carried = [self.fresh(kind) for kind in kinds]
            self.assign(self.scratch)
            self.assign_all(carried)
            for level in sorted({target.level for target in targets}):
                target = next(each for each in targets if each.level == level)
                self.get_all(carried)
                self.assign_all(self.carriers(target))
            self.get(self.scratch)
            self.release(carried)
        if any(self.leaves_tight_loop(target) for target in targets):
            # The index lies on the stack already, which does not matter.
            self.keep_counter()
        labels = b"".join(leb.u32(self.depth - target.level) for target in targets)
        self.out += b"\x0e" + leb.u32(len(targets) - 1) + labels

    def write_never(self, place: int, instr: Instr) -> None:
        if instr.opcode == op.RETURN:
            self.pop(self.type.results)
            self.keep_counter()
        self.out += instr.raw


_NO_RETURN = (op.UNREACHABLE, op.BR, op.BR_TABLE, op.RETURN)
_WRITERS = {
    op.BLOCK: _Writer.write_open,
    op.LOOP: _Writer.write_open,
    op.IF: _Writer.write_open,
    op.ELSE: _Writer.write_else,
    op.END: _Writer.write_end,
    op.BR: _Writer.write_branch,
    op.BR_IF: _Writer.write_branch,
    op.BR_TABLE: _Writer.write_branch_table,
    op.RETURN: _Writer.write_never,
    op.UNREACHABLE: _Writer.write_never,
    op.CALL: _Writer.write_plain_call,
    op.CALL_INDIRECT: _Writer.write_plain_call,
    op.DROP: _Writer.write_simple,
    op.NOP: _Writer.write_simple,
    op.SELECT: _Writer.write_simple,
    op.SELECT_TYPED: _Writer.write_simple,
    op.GLOBAL_GET: _Writer.write_global,
    op.GLOBAL_SET: _Writer.write_global,
}
