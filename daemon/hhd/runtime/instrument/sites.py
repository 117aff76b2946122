"""Writes the sites of one function: what stands around a call that may pause, and the interrupt checks.

After a site, the function looks at the state; while the host unwinds, it writes a frame and returns. In the resuming
form, a rewind arrives before the site with an empty operand stack: it takes the frame off, restores what it holds, and
makes the call again.
"""

from __future__ import annotations

from collections.abc import Sequence

from hhd.runtime.instrument import leb
from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.callgraph import Plan
from hhd.runtime.instrument.code import Body, Instr
from hhd.runtime.instrument.emit import (
    ADD,
    ELSE,
    END,
    LT_S,
    RETURN,
    SUB,
    VOID_BLOCK,
    VOID_IF,
    VOID_LOOP,
    Emitter,
    Names,
    Open,
)
from hhd.runtime.instrument.frames import TRAILER_BYTES, ZERO, groups
from hhd.runtime.instrument.liveness import live_after
from hhd.runtime.instrument.module import F32, F64, I32, V128, FuncType, Module
from hhd.runtime.instrument.shape import CHECK, Construct, Shape, shape
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import GUEST_LIVE_BITS_MAX, INSTRUMENTED_FUNCTION_BYTES_MAX

_SHELVED_MAX = 16
"""Values of a tight loop that step aside for `yield`: about as many as there are registers."""
_SAVED_BYTES = 10
"""What saving and restoring one local takes in code, at most."""


class SiteWriter(Emitter):
    """Knows where the sites of a function are, what is live at each, and how one is left and entered again."""

    def __init__(self, function: int, body: Body, module: Module, plan: Plan, names: Names, resuming: bool) -> None:
        self.type = module.type_of(function)
        super().__init__(self.type.params + body.local_types, names)
        self.module = module
        self.slot = names.slots.get(function, 0)
        self.resuming = resuming
        self.shape: Shape = shape(body.instrs, function, module, plan)
        if self.own_locals * len(self.shape.sites) > GUEST_LIVE_BITS_MAX:
            raise TooLargeError("a function of the module is too large to be made pausable")
        self.live = live_after(self.shape.instrs, self.shape.sites.keys(), self.own_locals)
        self.tight: Open | None = None
        self.uses: dict[int, tuple[set[int], dict[int, int]]] = {}
        self.rewinding = self.fresh(I32)
        self.scratch = self.fresh(I32)

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
        self.out += b"\x23" + leb.u32(self.names.state) + VOID_IF
        self.write_leaving(saved, self.shape.sites[place])
        self.out += END
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
        self.out += VOID_IF
        self.write_return_to_site(saved)
        numbers = kind.params if instr.opcode == op.CALL else kind.params[:-1]
        self.out += b"".join(ZERO[each] for each in numbers)
        if instr.opcode == op.CALL_INDIRECT:
            # Who was called is in the callee's frame, which is the last one now.
            self.out += b"\x23" + leb.u32(self.names.pointer) + b"\x28\x02\x00"
            self.const(TRAILER_BYTES)
            self.out += SUB + b"\x28\x02\x00" + instr.raw
        else:
            assert isinstance(instr.operand, int)
            self.out += b"\x10" + leb.u32(self.names.resuming_function(instr.operand))
        self.assign_all(results)
        self.const(0)
        self.assign(self.rewinding)
        self.out += ELSE
        self.get_all(arguments)
        self.write_call(instr)
        self.assign_all(results)
        self.out += END

    def write_check(self, saved: list[int], place: int) -> None:
        countdown = leb.u32(self.names.countdown)
        start = len(self.out)
        self.write_take_one(b"\x23" + countdown, self.scratch)
        below = bytes(self.out[start:])
        del self.out[start:]
        self.write_if_rewinding_or(saved, below)
        self.write_yield(saved, place)
        self.out += END

    def write_take_one(self, value: bytes, kept: int) -> None:
        """Take one off the countdown, whose `value` goes to the local `kept`; push whether it fell below zero."""
        self.out += value
        self.const(1)
        self.out += SUB + b"\x22" + leb.u32(kept) + b"\x24" + leb.u32(self.names.countdown)
        self.get(kept)
        self.const(0)
        self.out += LT_S

    def write_if_rewinding_or(self, saved: list[int], condition: bytes) -> None:
        """Begin an `if`: entered by a rewind to this check, which restores what was saved, or under `condition`."""
        if not self.resuming:
            self.out += condition + VOID_IF
            return
        self.get(self.rewinding)
        self.out += b"\x04\x7f"
        self.write_return_to_site(saved)
        self.const(1)
        self.out += ELSE + condition + END + VOID_IF

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
        self.out += b"\x23" + leb.u32(self.names.state) + VOID_IF
        self.write_leaving(saved, self.shape.sites[place])
        self.out += END

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
        self.out += b"".join(ZERO[each] for each in self.type.results) + RETURN

    # Tight loops

    def has_only_its_check(self, construct: Construct) -> bool:
        """Whether the only site of a construct is the check at its own head."""
        single = construct.opcode == op.LOOP and construct.low == construct.high
        return single and self.shape.instrs[construct.start + 1].opcode == CHECK

    def open_tight_loop(self, one: Open) -> None:
        """Begin a loop that calls nothing but `yield`: an inner loop of the program's turns, an outer one that yields.

        So an engine keeps the inner loop's values in registers, the countdown among them: it is in a local, which goes
        back to the global wherever the loop is left. Of the blocks around, `exit` is beyond both loops, and what falls
        out of `due` yields and begins again; a rewind goes there at once.
        """
        one.counter = self.fresh(I32)
        one.saved = self.saved_locals(one.construct.start + 1, one.params)
        self.out += b"\x23" + leb.u32(self.names.countdown)
        self.assign(one.counter)
        self.out += VOID_BLOCK + VOID_LOOP + VOID_BLOCK
        if self.resuming:
            self.get(self.rewinding)
            self.out += b"\x0d\x00"
        self.out += VOID_LOOP
        self.get(one.counter)
        self.const(1)
        self.out += SUB + b"\x22" + leb.u32(one.counter)
        self.const(0)
        self.out += LT_S + b"\x0d\x01"
        self.depth += 4
        one.level, one.height = self.depth, len(self.stack)
        self.tight = one
        self.get_all(one.params)
        self.stack += one.construct.type.params

    def close_tight_loop(self, one: Open) -> None:
        """End the inner loop, write what happens when a yield is due, and end the outer loop."""
        place, saved = one.construct.start + 1, one.saved
        self.out += END + b"\x0c\x02" + END
        if self.resuming:
            self.get(self.rewinding)
            self.out += VOID_IF
            self.write_return_to_site(saved)
            self.out += ELSE
            self.keep_counter()
            self.out += END
        else:
            self.keep_counter()
        shelved = [local for local in saved if local in one.params or self.stays(local, one.construct.start)]
        self.write_yield(saved, place, shelved=shelved if len(shelved) <= _SHELVED_MAX else [])
        # The inner loop takes one off for the check that has just been paid for.
        self.out += b"\x23" + leb.u32(self.names.countdown)
        self.const(1)
        self.out += ADD
        self.assign(one.counter)
        self.out += b"\x0c\x00" + END + END
        self.depth -= 4
        self.release([one.counter])
        self.tight = None

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

    def keep_counter(self) -> None:
        """Before a tight loop is left, put its countdown back where others look."""
        if self.tight is not None:
            self.get(self.tight.counter)
            self.out += b"\x24" + leb.u32(self.names.countdown)

    def leaves_tight_loop(self, target: Open) -> bool:
        return self.tight is not None and target.level < self.tight.level

    def land_here(self) -> None:
        """End the innermost block of `begin_arm`: a rewind comes in here, with an empty stack."""
        if self.resuming:
            self.out += END
            self.depth -= 1
