"""The pass over a whole module: checks, a way to leave and come back, and the exports that the host works with.

Pure and deterministic: the same bytes and the same version of the pass give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hhd.base.text import visible
from hhd.runtime.instrument import callgraph, emit, leb, unwind
from hhd.runtime.instrument.callgraph import Plan, never_returns
from hhd.runtime.instrument.code import VOID, decode
from hhd.runtime.instrument.frames import FrameFunctions, Shelf
from hhd.runtime.instrument.leb import Reader
from hhd.runtime.instrument.module import (
    I32,
    KIND_FUNCTION,
    KIND_GLOBAL,
    KIND_MEMORY,
    V128,
    Element,
    Export,
    FuncType,
    Global,
    Import,
    Module,
    encode,
    parse,
)
from hhd_protocol import codec
from hhd_protocol.abi import (
    ABI_VERSION,
    COUNTDOWN,
    ENTRY,
    IMPORT_MODULE,
    INSTRUMENTED_SECTION,
    PAUSING_IMPORTS,
    PLAIN_IMPORTS,
)
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import MODULE_BYTES_MAX, PLAIN_MODULE_BYTES_MAX

PASS_VERSION = 1
"""Raised whenever the pass writes other bytes for the same module."""

YIELD = "yield"
GLOBAL_PREFIX = "hhd_global_"
_I32 = bytes([I32])
IMPORT_TYPES = {
    "effect": FuncType(_I32 * 4, _I32),
    "reply": FuncType(_I32 * 3, b""),
    "emit": FuncType(_I32 * 2, b""),
    "panic": FuncType(_I32 * 2, b""),
    "args": FuncType(_I32 * 2, _I32),
    YIELD: VOID,
}
PLAIN_GUEST_IMPORTS = tuple(name for name in (*PAUSING_IMPORTS, *PLAIN_IMPORTS) if name != YIELD)
BOUNDED_NAMES = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp", "malloc", "free", "calloc", "realloc"})
"""Runtime functions of our own builds that run for a bounded time; a stranger may name anything so."""
BOUNDED_PARTS = (
    "17compiler_builtins3mem",
    "8dlmalloc8dlmalloc",
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rdl_",
)
"""Parts of their mangled names."""

DOOMED_PARTS = (
    "core9panicking",
    "3std9panicking",
    "rust_panic",
    "rust_begin_unwind",
    "unwrap_failed",
    "expect_failed",
    "_index_len_fail",
    "_index_order_fail",
    "slice_error_fail",
    "capacity_overflow",
    "handle_alloc_error",
    "9hhd_guest",
)
"""Parts of the (mangled) names of functions of our own builds that say why and trap, if they never return."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """An instrumented module, with what was decided about it."""

    module: bytes
    plan: Plan
    names: dict[int, str]


def instrument_binary(raw: bytes, *, trusted: bool) -> Result:
    """Put checks and unwinding into a plain guest module.

    `trusted` says that the module is our own build, whose bounded runtime functions are known by their names.
    Raises FormatError (or TooLargeError) with one sentence when the module is damaged or is not a guest.
    """
    if len(raw) > PLAIN_MODULE_BYTES_MAX:
        bound = PLAIN_MODULE_BYTES_MAX
        raise TooLargeError(f"the module has {len(raw)} bytes; at most {bound} are accepted for instrumentation")
    module = parse(raw)
    insist_on_guest(module)
    names = function_names(module) if trusted else {}
    pausing = frozenset(index for index, one in enumerate(module.imports) if one.name in PAUSING_IMPORTS)
    exempt = frozenset(index for index, name in names.items() if _bounded(name))
    # Bodies are taken apart twice, one at a time: all of them together would take a hundred times the module's size.
    summaries = [callgraph.summarise(decode(each, module.types), module) for each in module.bodies]
    if any(to >= module.function_count() for one in summaries for to in one.callees() if isinstance(to, int)):
        raise FormatError("the code of the module calls a function that it does not have")
    first = len(module.imports)
    doomed = frozenset(
        index
        for index, one in enumerate(summaries, first)
        if _doomed(names.get(index, "")) and never_returns(one.steps)
    )
    plan = callgraph.plan(module, summaries, pausing_imports=pausing, exempt=exempt, doomed=doomed)
    frame = _Frame(module, plan)
    called, resuming = [], []
    room = MODULE_BYTES_MAX
    for index, each in enumerate(module.bodies, first):
        body = decode(each, module.types)
        if index in plan.pausing:
            called.append(unwind.rewrite(index, body, module, plan, frame.names, resuming=False))
            resuming.append(unwind.rewrite(index, body, module, plan, frame.names, resuming=True))
        else:
            called.append(unwind.passed_through(body, module, plan, frame.names, doomed=index in plan.doomed))
        room -= len(called[-1]) + (len(resuming[-1]) if index in plan.pausing else 0)
        if room < 0:
            raise TooLargeError(f"the module passes {MODULE_BYTES_MAX} bytes when it is made pausable")
    return Result(module=encode(frame.finish(called, resuming)), plan=plan, names=names)


def insist_on_guest(module: Module) -> None:
    """Raise FormatError unless the imports and exports are those of a plain guest of this ABI."""
    insist_on_imports(module, PLAIN_GUEST_IMPORTS)
    memory, entry = module.export("memory"), module.export(ENTRY)
    if module.memory is None or memory is None or memory.kind != KIND_MEMORY:
        raise FormatError("the module exports no memory named memory")
    if entry is None or entry.kind != KIND_FUNCTION or entry.index < len(module.imports):
        raise FormatError(f"the module exports no function of its own named {ENTRY}")
    if module.type_of(entry.index) != VOID:
        raise FormatError(f"the function {ENTRY} of the module takes or returns something, which it may not")
    in_table = {item for element in module.elements for item in element.functions}
    if any(index in in_table and one.name in PAUSING_IMPORTS for index, one in enumerate(module.imports)):
        raise FormatError("the module puts the imported function effect into its table, which a guest may not")
    if module.start is not None:
        raise FormatError("the module has a start function, which could not be paused")
    if any(one.value_type == V128 and one.mutable for one in module.globals):
        raise FormatError("the module has a mutable global of a vector type, which a guest may not")
    for export in module.exports:
        if export.name.startswith(("asyncify_", GLOBAL_PREFIX)) or export.name == COUNTDOWN:
            raise FormatError(
                f"the module exports {visible(export.name[:40], one_line=True)}, a name that the instrumentation uses"
            )
    if any(name == INSTRUMENTED_SECTION for name, _ in module.customs):
        raise FormatError("the module says that it is instrumented already")


def insist_on_imports(module: Module, allowed: tuple[str, ...]) -> None:
    """Raise FormatError unless each import is one of `allowed`, with the type that the ABI gives it."""
    for one in module.imports:
        if one.module == IMPORT_MODULE and one.name == YIELD and YIELD not in allowed:
            raise FormatError("the module imports yield itself, which only the instrumentation may")
        if one.module != IMPORT_MODULE or one.name not in allowed:
            name = visible(f"{one.module[:40]}.{one.name[:40]}", one_line=True)
            raise FormatError(f"the module imports {name}, which is not part of the guest ABI {ABI_VERSION}")
        if module.types[one.type_index] != IMPORT_TYPES[one.name]:
            raise FormatError(f"the module imports {one.name} with another type than the guest ABI gives it")


def _doomed(name: str) -> bool:
    return any(part in name for part in DOOMED_PARTS)


def _bounded(name: str) -> bool:
    return name in BOUNDED_NAMES or any(part in name for part in BOUNDED_PARTS)


def function_names(module: Module) -> dict[int, str]:
    """Function names of the custom section `name`, as far as it can be read."""
    content = next((content for name, content in module.customs if name == "name"), b"")
    reader = Reader(content)
    names: dict[int, str] = {}
    try:
        while reader.left():
            kind = reader.byte()
            part = reader.inside(reader.u32())
            if kind == 1:
                for _ in range(part.count(2, "names")):
                    index = part.u32()
                    names[index] = part.name()
    except FormatError:
        return {}
    return names


class _Frame:
    """What is added around the functions: one import, three globals, some functions, their exports and table entries.

    Functions stand in this order: imports, `yield`, the functions as they were, those of `_added_functions`, the
    resuming forms of those that can pause, those of `FrameFunctions`.
    """

    def __init__(self, module: Module, plan: Plan) -> None:
        self.module = module
        self.types = list(module.types)
        first = len(module.imports)
        globals_ = len(module.globals)
        self.pausing = sorted(index for index in plan.pausing if index >= first)
        self.added_first = module.function_count() + 1
        resuming_first = self.added_first + len(HOST_EXPORTS)
        in_table = {item for element in module.elements for item in element.functions}
        self.in_table = [index for index in self.pausing if index in in_table]
        self.names = emit.Names(
            state=globals_,
            pointer=globals_ + 1,
            countdown=globals_ + 2,
            frames=FrameFunctions(first=resuming_first + len(self.pausing), pointer_global=globals_ + 1),
            shelf=Shelf(first=globals_ + 3),
            yield_import=first,
            first_defined=first,
            resuming={index: resuming_first + place for place, index in enumerate(self.pausing)},
            slots={index: (module.table_size or 0) + place for place, index in enumerate(self.in_table)},
        )

    def type_index(self, kind: FuncType) -> int:
        if kind not in self.types:
            self.types.append(kind)
        return self.types.index(kind)

    def finish(self, called: list[bytes], resuming: list[bytes]) -> Module:
        module, names = self.module, self.names
        void = self.type_index(VOID)
        entry = module.export(ENTRY)
        assert entry is not None
        added = _added_functions(names, entry.index)
        own_types = [self.type_index(kind) for _, kind in HOST_EXPORTS]
        own_types += [module.type_index_of(index) for index in self.pausing]
        own_types += [self.type_index(kind) for kind, _ in names.frames.functions()]
        zero = Global(value_type=I32, mutable=True, init=b"\x41\0\x0b")
        stamp = codec.encode({"abi": ABI_VERSION, "pass": PASS_VERSION})
        return replace(
            module,
            types=tuple(self.types),
            imports=(*module.imports, Import(module=IMPORT_MODULE, name=YIELD, type_index=void)),
            function_types=(*module.function_types, *own_types),
            table_size=None if module.table_size is None else module.table_size + len(self.in_table),
            globals=(*module.globals, zero, zero, zero, *names.shelf.globals()),
            exports=tuple(self.exports()),
            elements=tuple(self.elements()),
            bodies=(*called, *added, *resuming, *(body for _, body in names.frames.functions())),
            customs=((INSTRUMENTED_SECTION, stamp),),
        )

    def exports(self) -> list[Export]:
        """Those of the module (the entry through ours), every mutable global, and what the host works with."""
        module, names = self.module, self.names
        kept = [
            replace(one, index=names.function(one.index)) if one.kind == KIND_FUNCTION else one
            for one in module.exports
            if one.name != ENTRY
        ]
        known = {one.index for one in kept if one.kind == KIND_GLOBAL}
        globals_ = [
            Export(name=f"{GLOBAL_PREFIX}{index}", kind=KIND_GLOBAL, index=index)
            for index, one in enumerate(module.globals)
            if one.mutable and index not in known
        ]
        countdown = Export(name=COUNTDOWN, kind=KIND_GLOBAL, index=names.countdown)
        added = [
            Export(name=name, kind=KIND_FUNCTION, index=self.added_first + place)
            for place, (name, _) in enumerate(HOST_EXPORTS)
        ]
        return [*kept, *globals_, countdown, *added]

    def elements(self) -> list[Element]:
        names = self.names
        kept = [
            replace(one, functions=tuple(names.function(item) for item in one.functions))
            for one in self.module.elements
        ]
        if not self.in_table:
            return kept
        resuming = tuple(names.resuming[index] for index in self.in_table)
        return [*kept, Element(offset=self.module.table_size or 0, functions=resuming)]


_TAKES, _GIVES = FuncType(_I32, b""), FuncType(b"", _I32)
HOST_EXPORTS = (
    ("asyncify_start_unwind", _TAKES),
    ("asyncify_stop_unwind", VOID),
    ("asyncify_start_rewind", _TAKES),
    ("asyncify_stop_rewind", VOID),
    ("asyncify_get_state", _GIVES),
    (ENTRY, VOID),
)
"""Export name and type of each function that a host works with."""


def _added_functions(names: emit.Names, entry: int) -> list[bytes]:
    """The bodies of `HOST_EXPORTS`, in its order."""
    state, pointer = leb.u32(names.state), leb.u32(names.pointer)
    start = [b"\0\x41" + bytes([value]) + b"\x24" + state + b"\x20\0\x24" + pointer + b"\x0b" for value in (1, 2)]
    stop = b"\0\x41\0\x24" + state + b"\x0b"
    called = b"\x10" + leb.u32(names.function(entry))
    rewound = b"\x10" + leb.u32(names.resuming[entry]) if entry in names.resuming else called
    enter = b"\0\x23" + state + b"\x04\x40" + rewound + b"\x05" + called + b"\x0b\x0b"
    return [start[0], stop, start[1], stop, b"\0\x23" + state + b"\x0b", enter]
