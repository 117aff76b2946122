"""Prepares a function body for the unwind pass: dead code out, checks in, every place to pause numbered."""

from __future__ import annotations

from dataclasses import dataclass, field

from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.callgraph import Plan
from hhd.runtime.instrument.code import Instr
from hhd.runtime.instrument.module import FuncType, Module
from hhd_protocol.errors import FormatError

CHECK = -1
"""The opcode, of ours only, of an interrupt check."""
_CHECK_INSTR = Instr(CHECK, 0, b"")
_OPENERS = (op.BLOCK, op.LOOP, op.IF)
_NO_RETURN = (op.UNREACHABLE, op.BR, op.BR_TABLE, op.RETURN)


@dataclass(kw_only=True)
class Construct:
    """A block, loop or if: where it starts, its `else` (-1 for none), and the sites in it from `low` to `high`.

    Sites are numbered from 1 in the order of the code; `low > high` when there is none. `then_high` is the last site
    before the `else`. A construct is `flat` when the unwind pass must carry its operands in locals: it holds a site,
    or shares a branch with operands with one that does. `stops` are the sites of its own body, one level deep: for
    each arm, the (low, high) range of every site or construct with sites.
    """

    opcode: int
    type: FuncType
    start: int
    low: int = 0
    high: int = -1
    then_high: int = 0
    otherwise: int = -1
    flat: bool = False
    stops: list[tuple[int, int]] = field(default_factory=list)
    else_stops: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The instructions as they will be, the constructs by their place, and the sites: place to number."""

    instrs: list[Instr]
    constructs: dict[int, Construct]
    sites: dict[int, int]


def shape(instrs: list[Instr], function: int, module: Module, plan: Plan) -> Shape:
    """Return what the unwind pass needs to know of the body of `function`.

    Its result starts with the construct of the whole body, under the place -1. Raises FormatError when the
    structure does not hold together.
    """
    checked = _with_checks(_without_dead_code(instrs), function, plan)
    constructs, sites = _constructs(checked, module.type_of(function), module, plan)
    _spread_flatness(checked, constructs)
    return Shape(instrs=checked, constructs=constructs, sites=sites)


def is_pausing(instr: Instr, module: Module, plan: Plan) -> bool:
    """Whether a run can be paused within this instruction."""
    if instr.opcode == op.CALL:
        return instr.operand in plan.pausing
    if instr.opcode == op.CALL_INDIRECT:
        assert isinstance(instr.operand, int)
        return module.types[instr.operand] in plan.pausing_types
    return instr.opcode == CHECK


def _without_dead_code(instrs: list[Instr]) -> list[Instr]:
    """Leave out what stands between an instruction that never goes on and the end of its construct."""
    out = []
    dead = 0
    for instr in instrs:
        code = instr.opcode
        if dead:
            if code in _OPENERS:
                dead += 1
            elif code == op.END:
                dead -= 1
            elif code == op.ELSE and dead == 1:
                dead = 0
            if dead:
                continue
        out.append(instr)
        if code in _NO_RETURN:
            dead = 1
    return out


def _with_checks(instrs: list[Instr], function: int, plan: Plan) -> list[Instr]:
    out = [_CHECK_INSTR] if function in plan.entry_checks else []
    loops = function not in plan.exempt
    for instr in instrs:
        if plan.bulk_checks and instr.opcode in (op.MEMORY_COPY, op.MEMORY_FILL):
            out.append(_CHECK_INSTR)
        out.append(instr)
        if instr.opcode == op.LOOP and loops:
            out.append(_CHECK_INSTR)
    return out


def _constructs(
    instrs: list[Instr], kind: FuncType, module: Module, plan: Plan
) -> tuple[dict[int, Construct], dict[int, int]]:
    whole = Construct(opcode=op.BLOCK, type=FuncType(b"", kind.results), start=-1, low=1)
    constructs = {-1: whole}
    sites: dict[int, int] = {}
    path = [whole]
    count = 0
    for place, instr in enumerate(instrs):
        if not path:
            raise FormatError("a function of the module goes on after its end")
        code = instr.opcode
        if code in _OPENERS:
            assert isinstance(instr.operand, FuncType)
            construct = Construct(opcode=code, type=instr.operand, start=place, low=count + 1)
            constructs[place] = construct
            path.append(construct)
        elif code == op.ELSE:
            construct = path[-1]
            if construct.opcode != op.IF or construct.otherwise >= 0:
                raise FormatError("a function of the module has an else without its if")
            construct.otherwise, construct.then_high = place, count
        elif code == op.END:
            construct = path.pop()
            construct.high = count
            if construct.otherwise < 0:
                construct.then_high = count
            construct.flat = construct.low <= count
            if construct.flat and path:
                _add_stop(path[-1], construct.low, count)
        elif is_pausing(instr, module, plan):
            count += 1
            sites[place] = count
            _add_stop(path[-1], count, count)
    if path:
        raise FormatError("a function of the module does not end")
    whole.flat = True
    return constructs, sites


def _add_stop(construct: Construct, low: int, high: int) -> None:
    (construct.stops if construct.otherwise < 0 else construct.else_stops).append((low, high))


def _spread_flatness(instrs: list[Instr], constructs: dict[int, Construct]) -> None:
    """A `br_table` with operands must find all its labels flat, or none: its operands go one way."""
    groups_of: dict[int, list[list[Construct]]] = {}
    groups = _label_groups(instrs, constructs)
    for group in groups:
        for one in group:
            groups_of.setdefault(one.start, []).append(group)
    work = [one for group in groups for one in group if one.flat]
    while work:
        for group in groups_of.pop(work.pop().start, []):
            for one in group:
                if not one.flat:
                    one.flat = True
                    work.append(one)


def _label_groups(instrs: list[Instr], constructs: dict[int, Construct]) -> list[list[Construct]]:
    groups = []
    path = [constructs[-1]]
    for place, instr in enumerate(instrs):
        if instr.opcode in _OPENERS:
            path.append(constructs[place])
        elif instr.opcode == op.END:
            path.pop()
        elif instr.opcode == op.BR_TABLE:
            assert isinstance(instr.operand, tuple)
            targets = [path[-1 - label] for label in sorted(set(instr.operand))]
            if len(targets) > 1 and any(label_types(one) for one in targets):
                groups.append(targets)
    return groups


def label_types(construct: Construct) -> bytes:
    """The types of the operands that a branch to this construct carries."""
    return construct.type.params if construct.opcode == op.LOOP else construct.type.results
