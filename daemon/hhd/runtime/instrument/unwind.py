"""Rewrites one function so that a run can leave it at any site and come back to the same site later.

A *site* is a call that may pause, or an interrupt check. After each, the function looks at the state; while the host
unwinds, it writes a *frame* (the locals that are still needed, its slot in the table, the number of the site) and
returns. While the host rewinds, the function reads the number of the site from the last frame and jumps there:
the body of each construct with sites begins with a `br_table` over them, out of nested blocks that end where the sites
are. At the site it takes its frame off, restores the locals, and makes the call again.

Two facts make this cheap while nothing is paused. Operands that lie on the stack across a site go to locals, which
costs an optimising engine nothing; and only what is live is saved, so nothing else is kept for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hhd.runtime.instrument import leb
from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.callgraph import Plan
from hhd.runtime.instrument.code import Body, Instr
from hhd.runtime.instrument.frames import TRAILER_BYTES, ZERO, FrameFunctions, Shelf, groups
from hhd.runtime.instrument.liveness import live_after
from hhd.runtime.instrument.module import F32, F64, I32, I64, V128, FuncType, Module
from hhd.runtime.instrument.opcodes import PLAIN
from hhd.runtime.instrument.shape import CHECK, Construct, Shape, is_pausing, label_types, shape
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import GUEST_LIVE_BITS_MAX, INSTRUMENTED_FUNCTION_BYTES_MAX

_TYPE_OF = {"i": I32, "l": I64, "f": F32, "d": F64, "v": V128}
EFFECTS = {
    code: (bytes(_TYPE_OF[one] for one in pops), bytes(_TYPE_OF[one] for one in pushes))
    for code, (_, pops, pushes) in PLAIN.items()
}
_TABLE_SHARE = 8
"""Entries of a jump table for each of its targets, at most: constructs within constructs must not multiply."""
_SHELVED_MAX = 16
"""Values of a tight loop that step aside for `yield`: about as many as there are registers."""
_SAVED_BYTES = 10
"""What saving and restoring one local takes in code, at most."""
_COUNTDOWN_MAX = 2**31 - 1
_VOID_BLOCK, _VOID_LOOP, _VOID_IF = b"\x02\x40", b"\x03\x40", b"\x04\x40"
_END, _ELSE, _RETURN = b"\x0b", b"\x05", b"\x0f"
_I32_CONST, _DROP, _SELECT = b"\x41", b"\x1a", b"\x1b"
_EQZ, _LT_S, _LE_U, _ADD, _SUB = b"\x45", b"\x48", b"\x4d", b"\x6a", b"\x6b"


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
class _Open:
    """A construct that is being written: its label's depth, and the operands around it that wait in locals."""

    construct: Construct
    level: int
    height: int
    waiting: list[int] = field(default_factory=list)
    params: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    counter: int = -1


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
    out = bytearray(_groups(body.local_types))
    if doomed:
        out += _I32_CONST + leb.signed(_COUNTDOWN_MAX) + b"\x24" + leb.u32(names.countdown)
    for instr in body.instrs:
        if instr.opcode == op.CALL:
            assert isinstance(instr.operand, int)
            out += b"\x10" + leb.u32(names.function(instr.operand))
        else:
            out += instr.raw
        if doomed and is_pausing(instr, module, plan):
            out += b"\x23" + leb.u32(names.state) + _VOID_IF + b"\0" + _END
    return bytes(out)


class _Writer:
    """Writes the code in one walk, keeping the types of the operands as a validator does."""

    def __init__(self, function: int, body: Body, module: Module, plan: Plan, names: Names, resuming: bool) -> None:
        self.module = module
        self.plan = plan
        self.names = names
        self.slot = names.slots.get(function, 0)
        self.resuming = resuming
        self.type = module.type_of(function)
        self.shape: Shape = shape(body.instrs, function, module, plan)
        self.local_types = bytearray(self.type.params + body.local_types)
        self.own_locals = len(self.local_types)
        if self.own_locals * len(self.shape.sites) > GUEST_LIVE_BITS_MAX:
            raise TooLargeError("a function of the module is too large to be made pausable")
        self.live = live_after(self.shape.instrs, self.shape.sites.keys(), self.own_locals)
        self.free: dict[int, list[int]] = {}
        self.out = bytearray()
        self.stack: list[int] = []
        self.path: list[_Open] = []
        self.depth = 0
        self.tight: _Open | None = None
        self.uses: dict[int, tuple[set[int], dict[int, int]]] = {}
        self.rewinding = self.fresh(I32)
        self.scratch = self.fresh(I32)

    # Locals

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
        self.out += _I32_CONST + leb.signed(value)

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

    # The walk

    def run(self) -> bytes:
        whole = self.shape.constructs[-1]
        self.open_flat(whole)
        for place, instr in enumerate(self.shape.instrs):
            self.write(place, instr)
        self.out += _END
        return _groups(bytes(self.local_types[len(self.type.params) :])) + bytes(self.out)

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

    def callee_type(self, instr: Instr) -> FuncType:
        assert isinstance(instr.operand, int)
        if instr.opcode == op.CALL:
            if instr.operand >= self.module.function_count():
                raise FormatError("the code of the module calls a function that it does not have")
            return self.module.type_of(instr.operand)
        kind = self.module.types[instr.operand]
        return FuncType(kind.params + bytes([I32]), kind.results)

    def write_call(self, instr: Instr) -> None:
        assert isinstance(instr.operand, int)
        if instr.opcode == op.CALL:
            self.out += b"\x10" + leb.u32(self.names.function(instr.operand))
        else:
            self.out += instr.raw

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
        self.path.append(_Open(construct=construct, level=self.depth, height=len(self.stack)))
        self.stack += construct.type.params

    def open_flat(self, construct: Construct) -> None:
        """Begin a construct whose operands travel in locals, so that a rewind can enter it with an empty stack."""
        kind = construct.type
        one = _Open(construct=construct, level=0, height=0)
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
        self.out += {op.BLOCK: _VOID_BLOCK, op.LOOP: _VOID_LOOP, op.IF: _VOID_IF}[construct.opcode]
        self.depth += 1
        one.level, one.height = self.depth, len(self.stack)
        self.begin_arm(construct.stops)

    def has_only_its_check(self, construct: Construct) -> bool:
        """Whether the only site of a construct is the check at its own head."""
        single = construct.opcode == op.LOOP and construct.low == construct.high
        return single and self.shape.instrs[construct.start + 1].opcode == CHECK

    def open_tight_loop(self, one: _Open) -> None:
        """Begin a loop that calls nothing but `yield`, in two: the call in the outer, the program's turns in the inner.

        So an engine keeps the inner loop's values in registers, the countdown among them: it is in a local, which goes
        back to the global wherever the loop is left.
        """
        place = one.construct.start + 1
        counter, due = self.fresh(I32), self.fresh(I32)
        countdown = leb.u32(self.names.countdown)
        self.const(0)
        self.assign(due)
        self.out += b"\x23" + countdown
        self.assign(counter)
        self.out += _VOID_LOOP
        saved = self.saved_locals(place, one.params)
        self.write_if_rewinding_or(saved, b"\x20" + leb.u32(due))
        shelved = [local for local in saved if local in one.params or self.stays(local, one.construct.start)]
        self.write_yield(saved, place, shelved=shelved if len(shelved) <= _SHELVED_MAX else [])
        # The inner loop takes one off for the check that has just been paid for.
        self.const(0)
        self.assign(due)
        self.out += b"\x23" + countdown
        self.const(1)
        self.out += _ADD
        self.assign(counter)
        self.out += _END + _VOID_LOOP
        self.get(counter)
        self.const(1)
        self.out += _SUB + b"\x22" + leb.u32(counter)
        self.const(0)
        self.out += _LT_S + _VOID_IF
        self.const(1)
        self.assign(due)
        self.out += b"\x20" + leb.u32(counter) + b"\x24" + countdown + b"\x0c\x02" + _END
        self.release([due])
        self.depth += 2
        one.level, one.height, one.counter = self.depth, len(self.stack), counter
        self.tight = one
        self.get_all(one.params)
        self.stack += one.construct.type.params

    def stays(self, local: int, start: int) -> bool:
        """Whether the loop at `start` needs a local in a register at every turn.

        It does if it changes it; one that it only reads may lie in memory, unless it is a float or vector read twice.
        """
        if start not in self.uses:
            self.uses[start] = self.uses_in_loop(start)
        changed, read = self.uses[start]
        return local in changed or (self.local_types[local] in (F32, F64, V128) and read.get(local, 0) > 1)

    def uses_in_loop(self, start: int) -> tuple[set[int], dict[int, int]]:
        """The locals that a loop changes, and how often it reads each."""
        changed: set[int] = set()
        read: dict[int, int] = {}
        depth = 0
        for code, operand, _ in self.shape.instrs[start:]:
            if code == op.LOCAL_GET:
                assert isinstance(operand, int)
                read[operand] = read.get(operand, 0) + 1
            elif code in (op.LOCAL_SET, op.LOCAL_TEE):
                assert isinstance(operand, int)
                changed.add(operand)
            elif code in (op.BLOCK, op.LOOP, op.IF):
                depth += 1
            elif code == op.END:
                depth -= 1
                if depth == 0:
                    break
        return changed, read

    def write_choice(self, construct: Construct, condition: int, has_sites: bool) -> None:
        """Push the condition of an `if`; while rewinding, whether the site is in its first arm."""
        if not has_sites or not self.resuming:
            self.get(condition)
            return
        self.get(self.rewinding)
        self.const(construct.then_high)
        self.out += _LE_U
        self.get(condition)
        self.get(self.rewinding)
        self.out += _SELECT

    def begin_arm(self, stops: Sequence[tuple[int, int]]) -> None:
        """Open a block for each place where a rewind may land in this body, and jump to the right one."""
        one = self.path[-1]
        if stops and self.resuming:
            self.out += _VOID_BLOCK * (len(stops) + 1)
            if one.construct.start < 0:
                self.write_entry()
            else:
                self.get(self.rewinding)
                self.out += _EQZ + b"\x0d\x00"
            self.write_jump(stops)
            self.out += _END
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
                self.out += _LE_U + b"\x0d" + leb.u32(place + 1)
            return
        self.get(self.rewinding)
        self.const(first)
        self.out += _SUB
        table = [leb.u32(place + 1) for place, (low, high) in enumerate(stops) for _ in range(low, high + 1)]
        self.out += b"\x0e" + leb.u32(len(table)) + b"".join(table) + b"\x00"

    def write_entry(self) -> None:
        """Read from the last frame at which site the function was left."""
        self.out += self.names.frames.call(push=False, kind=I32, count=2)
        self.assign(self.rewinding)
        self.out += _DROP

    def land_here(self) -> None:
        """End the innermost block of `begin_arm`: a rewind comes in here, with an empty stack."""
        if self.resuming:
            self.out += _END
            self.depth -= 1

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

    def write_else(self, place: int, instr: Instr) -> None:
        one = self.path[-1]
        if not one.construct.flat:
            del self.stack[one.height :]
            self.stack += one.construct.type.params
            self.out += instr.raw
            return
        self.finish_arm(place)
        self.out += _ELSE
        self.begin_arm(one.construct.else_stops)

    def write_end(self, place: int, instr: Instr) -> None:
        one = self.path[-1]
        if one.construct.flat:
            self.finish_arm(place)
        else:
            del self.stack[one.height :]
        self.path.pop()
        self.out += _END
        self.depth -= 1
        if one is self.tight:
            self.out += _END
            self.depth -= 1
            self.release([one.counter])
            self.tight = None
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

    def keep_counter(self) -> None:
        """Before a tight loop is left, put its countdown back where others look."""
        if self.tight is not None:
            self.get(self.tight.counter)
            self.out += b"\x24" + leb.u32(self.names.countdown)

    def leaves_tight_loop(self, target: _Open) -> bool:
        return self.tight is not None and target.level < self.tight.level

    def target(self, label: int) -> _Open:
        return self.path[-1 - label]

    def carriers(self, target: _Open) -> list[int]:
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
            self.out += _VOID_IF
            self.keep_counter()
            self.out += b"\x0c" + leb.u32(self.depth + 1 - target.level) + _END
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

    # Sites

    def write_site(self, place: int, instr: Instr) -> None:
        if instr.opcode == CHECK:
            waiting = self.spill_rest()
            self.land_here()
            self.write_check(self.saved_locals(place, waiting), place)
            self.unspill(waiting)
            return
        kind = self.callee_type(instr)
        self.pop(kind.params)
        results: list[int] = []
        if self.resuming:
            arguments = [self.fresh(each) for each in kind.params]
            self.assign_all(arguments)
            waiting = self.spill_rest()
            results = [self.fresh(each) for each in kind.results]
            self.land_here()
            saved = self.saved_locals(place, waiting)
            self.write_call_either_way(instr, kind, arguments, results, saved)
            self.release(arguments)
        else:
            self.write_call(instr)
            if len(self.stack) > self.path[-1].height:
                results = [self.fresh(each) for each in kind.results]
            self.assign_all(results)
            waiting = self.spill_rest()
            saved = self.saved_locals(place, waiting)
        self.out += b"\x23" + leb.u32(self.names.state) + _VOID_IF
        self.write_leaving(saved, self.shape.sites[place])
        self.out += _END
        self.unspill(waiting)
        self.get_all(results)
        self.release(results)
        self.stack += kind.results

    def saved_locals(self, place: int, waiting: list[int]) -> list[int]:
        """What a frame of this site holds: locals of the program that are live, operands that wait."""
        live = self.live[place]
        grown = len(self.out) + _SAVED_BYTES * (live.bit_count() + sum(len(one.waiting) for one in self.path))
        if grown > INSTRUMENTED_FUNCTION_BYTES_MAX:
            raise TooLargeError("a function of the module is too large to be made pausable")
        own = [local for local in range(self.own_locals) if live >> local & 1]
        return own + [local for one in self.path for local in one.waiting] + waiting

    def write_call_either_way(
        self, instr: Instr, kind: FuncType, arguments: list[int], results: list[int], saved: list[int]
    ) -> None:
        """While rewinding, call the resuming form with arguments that mean nothing; else call as it stood."""
        self.get(self.rewinding)
        self.out += _VOID_IF
        self.write_return_to_site(saved)
        numbers = kind.params if instr.opcode == op.CALL else kind.params[:-1]
        self.out += b"".join(ZERO[each] for each in numbers)
        if instr.opcode == op.CALL_INDIRECT:
            # Who was called is in the callee's frame, which is the last one now.
            self.out += b"\x23" + leb.u32(self.names.pointer) + b"\x28\x02\x00"
            self.const(TRAILER_BYTES)
            self.out += _SUB + b"\x28\x02\x00" + instr.raw
        else:
            assert isinstance(instr.operand, int)
            self.out += b"\x10" + leb.u32(self.names.resuming_function(instr.operand))
        self.assign_all(results)
        self.const(0)
        self.assign(self.rewinding)
        self.out += _ELSE
        self.get_all(arguments)
        self.write_call(instr)
        self.assign_all(results)
        self.out += _END

    def write_check(self, saved: list[int], place: int) -> None:
        countdown = leb.u32(self.names.countdown)
        start = len(self.out)
        self.write_take_one(b"\x23" + countdown, self.scratch)
        below = bytes(self.out[start:])
        del self.out[start:]
        self.write_if_rewinding_or(saved, below)
        self.write_yield(saved, place)
        self.out += _END

    def write_take_one(self, value: bytes, kept: int) -> None:
        """Take one off the countdown, whose `value` goes to the local `kept`; push whether it fell below zero."""
        self.out += value
        self.const(1)
        self.out += _SUB + b"\x22" + leb.u32(kept) + b"\x24" + leb.u32(self.names.countdown)
        self.get(kept)
        self.const(0)
        self.out += _LT_S

    def write_if_rewinding_or(self, saved: list[int], condition: bytes) -> None:
        """Begin an `if`: entered by a rewind to this check, which restores what was saved, or under `condition`."""
        if not self.resuming:
            self.out += condition + _VOID_IF
            return
        self.get(self.rewinding)
        self.out += b"\x04\x7f"
        self.write_return_to_site(saved)
        self.const(1)
        self.out += _ELSE + condition + _END + _VOID_IF

    def write_yield(self, saved: list[int], place: int, shelved: Sequence[int] = ()) -> None:
        """Call the host, and leave if it unwinds; `shelved` locals are in globals during the call."""
        places = self.names.shelf.places([self.local_types[local] for local in shelved])
        for local, shelf in zip(shelved, places, strict=True):
            self.get(local)
            self.out += b"\x24" + leb.u32(shelf)
        self.out += b"\x10" + leb.u32(self.names.yield_import)
        for local, shelf in zip(shelved, places, strict=True):
            self.out += b"\x23" + leb.u32(shelf)
            self.assign(local)
        if self.resuming:
            self.const(0)
            self.assign(self.rewinding)
        self.out += b"\x23" + leb.u32(self.names.state) + _VOID_IF
        self.write_leaving(saved, self.shape.sites[place])
        self.out += _END

    def write_return_to_site(self, saved: list[int]) -> None:
        """Take the frame off (its trailer was read at the entry) and restore what it holds."""
        for kind, group in reversed(groups(saved, self.local_types)):
            self.out += self.names.frames.call(push=False, kind=kind, count=len(group))
            self.assign_all(group)

    def write_leaving(self, saved: list[int], number: int) -> None:
        """Write a frame and return; what is returned means nothing."""
        for kind, group in groups(saved, self.local_types):
            self.get_all(group)
            self.out += self.names.frames.call(push=True, kind=kind, count=len(group))
        self.const(self.slot)
        self.const(number)
        self.out += self.names.frames.call(push=True, kind=I32, count=2)
        self.out += b"".join(ZERO[each] for each in self.type.results) + _RETURN


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


def _groups(kinds: bytes) -> bytes:
    """Declare locals: runs of one type share an entry."""
    runs: list[tuple[int, int]] = []
    for kind in kinds:
        if runs and runs[-1][1] == kind:
            runs[-1] = (runs[-1][0] + 1, kind)
        else:
            runs.append((1, kind))
    return leb.vector([leb.u32(count) + bytes([kind]) for count, kind in runs])


__all__ = ["Names", "is_pausing", "passed_through", "rewrite"]
