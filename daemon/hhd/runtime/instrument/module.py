"""A WebAssembly module taken apart as far as the passes need, read with every length checked and written back.

Only what a guest may have is representable: imported functions, at most one table of functions, one 32-bit memory,
numeric globals. Everything else is refused in one sentence, for the module may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hhd.runtime.instrument import leb
from hhd.runtime.instrument.leb import Reader
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import FUNCTION_BYTES_MAX, MODULE_BYTES_MAX

MAGIC = b"\0asm\x01\0\0\0"
I32, I64, F32, F64, V128 = 0x7F, 0x7E, 0x7D, 0x7C, 0x7B
VALUE_BYTES = {I32: 4, I64: 8, F32: 4, F64: 8, V128: 16}
KIND_FUNCTION, KIND_TABLE, KIND_MEMORY, KIND_GLOBAL = range(4)
_CONST_OF = {0x41: I32, 0x42: I64, 0x43: F32, 0x44: F64, 0xFD000C: V128}
_ITEMS_MAX = 1_000_000
"""Of any kind: wasmtime's own bound on functions and types."""
_TYPE_VALUES_MAX = 1000
"""Parameters or results of one type: the bound of the JavaScript interface, which all engines keep."""


@dataclass(frozen=True)
class FuncType:
    """Parameter and result types, one byte each."""

    params: bytes
    results: bytes


@dataclass(frozen=True, kw_only=True)
class Import:
    """An imported function."""

    module: str
    name: str
    type_index: int


@dataclass(frozen=True, kw_only=True)
class Global:
    """A global with its initial value as an encoded constant expression."""

    value_type: int
    mutable: bool
    init: bytes


@dataclass(frozen=True, kw_only=True)
class Export:
    """A name under which the host finds something."""

    name: str
    kind: int
    index: int


@dataclass(frozen=True, kw_only=True)
class Element:
    """Functions that instantiation writes into the table from `offset` on."""

    offset: int
    functions: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module; function indices count imports first."""

    types: tuple[FuncType, ...] = ()
    imports: tuple[Import, ...] = ()
    function_types: tuple[int, ...] = ()
    table_size: int | None = None
    memory: tuple[int, int | None] | None = None
    globals: tuple[Global, ...] = ()
    exports: tuple[Export, ...] = ()
    start: int | None = None
    elements: tuple[Element, ...] = ()
    bodies: tuple[bytes, ...] = field(default=(), repr=False)
    data_segments: bytes = field(default=b"", repr=False)
    customs: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    def type_index_of(self, function: int) -> int:
        """The type index of a function."""
        if function < len(self.imports):
            return self.imports[function].type_index
        return self.function_types[function - len(self.imports)]

    def type_of(self, function: int) -> FuncType:
        """The type of a function."""
        return self.types[self.type_index_of(function)]

    def function_count(self) -> int:
        """Imported and defined functions together."""
        return len(self.imports) + len(self.function_types)

    def export(self, name: str) -> Export | None:
        """The export of this name; None when there is none."""
        return next((export for export in self.exports if export.name == name), None)


_T = TypeVar("_T")


def parse(raw: bytes) -> Module:
    """Take a module apart.

    Raises TooLargeError past MODULE_BYTES_MAX, FormatError for what is damaged or what a guest may not have.
    """
    if len(raw) > MODULE_BYTES_MAX:
        raise TooLargeError(f"the module has {len(raw)} bytes; at most {MODULE_BYTES_MAX} are accepted")
    if raw[:4] != MAGIC[:4]:
        raise FormatError("this is not a WebAssembly module")
    if raw[:8] != MAGIC:
        raise FormatError("this is not a WebAssembly module of version 1 (a component is not accepted)")
    return _Parser(raw).run()


class _Parser:
    """Reads section by section; sections must come in their order, each once."""

    def __init__(self, raw: bytes) -> None:
        self.reader = Reader(raw, len(MAGIC))
        self.types: tuple[FuncType, ...] = ()
        self.imports: tuple[Import, ...] = ()
        self.function_types: tuple[int, ...] = ()
        self.table_size: int | None = None
        self.memory: tuple[int, int | None] | None = None
        self.globals: tuple[Global, ...] = ()
        self.exports: tuple[Export, ...] = ()
        self.start: int | None = None
        self.elements: tuple[Element, ...] = ()
        self.bodies: tuple[bytes, ...] = ()
        self.data_segments = b""
        self.customs: list[tuple[str, bytes]] = []

    def run(self) -> Module:
        before = 0
        while self.reader.left():
            number = self.reader.byte()
            section = self.reader.inside(self.reader.u32())
            if number == 0:
                name = section.name()
                self.customs.append((name, section.take(section.left())))
                continue
            if number not in _SECTIONS:
                what = "exceptions" if number == 13 else f"a section of unknown kind {number}"
                raise FormatError(f"the module uses {what}, which a guest may not")
            place, read = _SECTIONS[number]
            if place <= before:
                raise FormatError("the sections of the module are out of order")
            before = place
            read(self, section)
            section.done(f"section {number}")
        if len(self.bodies) != len(self.function_types):
            raise FormatError("the module declares another number of functions than it defines")
        return self._checked()

    def _checked(self) -> Module:
        functions = len(self.imports) + len(self.function_types)
        limits = {KIND_FUNCTION: functions, KIND_GLOBAL: len(self.globals)}
        limits[KIND_TABLE] = 0 if self.table_size is None else 1
        limits[KIND_MEMORY] = 0 if self.memory is None else 1
        if len({export.name for export in self.exports}) != len(self.exports):
            raise FormatError("two exports of the module have the same name")
        named = [item for element in self.elements for item in element.functions]
        if (
            any(export.index >= limits[export.kind] for export in self.exports)
            or any(item >= functions for item in named)
            or (self.start is not None and self.start >= functions)
            or any(index >= len(self.types) for index in self.function_types)
            or any(one.type_index >= len(self.types) for one in self.imports)
            or (self.elements and self.table_size is None)
        ):
            raise FormatError("the module refers to something that it does not have")
        return Module(
            types=self.types,
            imports=self.imports,
            function_types=self.function_types,
            table_size=self.table_size,
            memory=self.memory,
            globals=self.globals,
            exports=self.exports,
            start=self.start,
            elements=self.elements,
            bodies=self.bodies,
            data_segments=self.data_segments,
            customs=tuple(self.customs),
        )

    def read_types(self, reader: Reader) -> None:
        self.types = _items(reader, 1, "types", _func_type)

    def read_imports(self, reader: Reader) -> None:
        self.imports = _items(reader, 4, "imports", _import)

    def read_functions(self, reader: Reader) -> None:
        self.function_types = _items(reader, 1, "functions", Reader.u32)

    def read_tables(self, reader: Reader) -> None:
        sizes = _items(reader, 3, "tables", _table)
        if len(sizes) > 1:
            raise FormatError("the module has more than one table, which a guest may not")
        self.table_size = sizes[0] if sizes else None

    def read_memories(self, reader: Reader) -> None:
        memories = _items(reader, 2, "memories", _memory)
        if len(memories) > 1:
            raise FormatError("the module has more than one memory, which a guest may not")
        self.memory = memories[0] if memories else None

    def read_globals(self, reader: Reader) -> None:
        self.globals = _items(reader, 4, "globals", _global)

    def read_exports(self, reader: Reader) -> None:
        self.exports = _items(reader, 3, "exports", _export)

    def read_start(self, reader: Reader) -> None:
        self.start = reader.u32()

    def read_elements(self, reader: Reader) -> None:
        self.elements = tuple(one for one in _items(reader, 2, "element segments", _element) if one is not None)
        for element in self.elements:
            if element.offset + len(element.functions) > (self.table_size or 0):
                raise FormatError("an element segment of the module does not fit its table")

    def read_data_count(self, reader: Reader) -> None:
        reader.u32()

    def read_code(self, reader: Reader) -> None:
        self.bodies = _items(reader, 3, "function bodies", _body)

    def read_data(self, reader: Reader) -> None:
        self.data_segments = reader.take(reader.left())
        _items(Reader(self.data_segments), 2, "data segments", _data)


_SECTIONS: dict[int, tuple[int, Callable[[_Parser, Reader], None]]] = {
    1: (1, _Parser.read_types),
    2: (2, _Parser.read_imports),
    3: (3, _Parser.read_functions),
    4: (4, _Parser.read_tables),
    5: (5, _Parser.read_memories),
    6: (6, _Parser.read_globals),
    7: (7, _Parser.read_exports),
    8: (8, _Parser.read_start),
    9: (9, _Parser.read_elements),
    12: (10, _Parser.read_data_count),
    10: (11, _Parser.read_code),
    11: (12, _Parser.read_data),
}
"""Section number to its place in the order of sections, and its reader."""


def _items(reader: Reader, bytes_min: int, what: str, read: Callable[[Reader], _T]) -> tuple[_T, ...]:
    count = reader.count(bytes_min, what)
    if count > _ITEMS_MAX:
        raise TooLargeError(f"the module has {count} {what}; at most {_ITEMS_MAX} are accepted")
    return tuple(read(reader) for _ in range(count))


def value_type(byte: int) -> int:
    """The number type that `byte` stands for; raises FormatError for references and unknown types."""
    if byte not in VALUE_BYTES:
        raise FormatError("the module uses references or a type that is unknown, which a snapshot cannot hold")
    return byte


def _func_type(reader: Reader) -> FuncType:
    if reader.byte() != 0x60:
        raise FormatError("the module defines a type that is not a plain function type")
    both = []
    for _ in range(2):
        count = reader.count(1, "values of a type")
        if count > _TYPE_VALUES_MAX:
            raise TooLargeError(f"a function type has {count} values; at most {_TYPE_VALUES_MAX} are accepted")
        both.append(bytes(value_type(byte) for byte in reader.take(count)))
    return FuncType(*both)


def _import(reader: Reader) -> Import:
    module, name, kind = reader.name(), reader.name(), reader.byte()
    if kind != KIND_FUNCTION:
        raise FormatError("the module imports something that is not a function, which a guest may not")
    return Import(module=module, name=name, type_index=reader.u32())


def _table(reader: Reader) -> int:
    if reader.byte() != 0x70:
        raise FormatError("the module has a table of something else than functions, which a guest may not")
    flags = reader.byte()
    if flags > 1:
        raise FormatError("the module has a table of an unknown kind")
    size = reader.u32()
    if flags and reader.u32() < size:
        raise FormatError("the module has a table whose bounds contradict each other")
    if size > _ITEMS_MAX:
        raise TooLargeError(f"the module has a table of {size} entries; at most {_ITEMS_MAX} are accepted")
    return size


def _memory(reader: Reader) -> tuple[int, int | None]:
    flags = reader.byte()
    if flags > 1:
        raise FormatError("the module has a shared or 64-bit memory, which a guest may not")
    least = reader.u32()
    most = reader.u32() if flags else None
    if least > 65536 or (most is not None and not least <= most <= 65536):
        raise FormatError("the module has a memory whose bounds are out of range")
    return least, most


def _constant(reader: Reader) -> tuple[int, bytes]:
    """The type and the encoding of a constant expression of one `const`."""
    start = reader.pos
    opcode = reader.byte()
    if opcode == 0xFD:
        opcode = opcode << 16 | reader.u32()
    if opcode not in _CONST_OF:
        raise FormatError("an initial value in the module is not a plain constant, which a guest's must be")
    if opcode == 0x41:
        reader.signed(32)
    elif opcode == 0x42:
        reader.signed(64)
    else:
        reader.take(VALUE_BYTES[_CONST_OF[opcode]])
    if reader.byte() != 0x0B:
        raise FormatError("an initial value in the module is not a plain constant, which a guest's must be")
    return _CONST_OF[opcode], reader.raw[start : reader.pos]


def _offset(reader: Reader) -> int:
    kind, raw = _constant(reader)
    if kind != I32:
        raise FormatError("an offset in the module is not a 32-bit number")
    return Reader(raw, 1).signed(32) & 0xFFFFFFFF


def _global(reader: Reader) -> Global:
    kind, mutable = reader.byte(), reader.byte()
    if kind not in VALUE_BYTES:
        raise FormatError("the module has a global of a reference type, which a guest may not")
    if mutable > 1:
        raise FormatError("the module has a global of an unknown kind")
    found, init = _constant(reader)
    if found != kind:
        raise FormatError("the initial value of a global in the module is of another type")
    return Global(value_type=kind, mutable=bool(mutable), init=init)


def _export(reader: Reader) -> Export:
    name, kind, index = reader.name(), reader.byte(), reader.u32()
    if kind > KIND_GLOBAL:
        raise FormatError("the module exports something of an unknown kind")
    return Export(name=name, kind=kind, index=index)


def _element(reader: Reader) -> Element | None:
    """An active segment, or None for a declarative one, which has no effect without reference instructions."""
    flags = reader.u32()
    if flags > 7:
        raise FormatError("the module has an element segment of an unknown kind")
    active, declared, expressions = not flags & 1, flags & 3 == 3, bool(flags & 4)
    if not active and not declared:
        raise FormatError("the module has a passive element segment, whose state a snapshot would miss")
    if active and flags & 2 and reader.u32() != 0:
        raise FormatError("the module fills a table that it does not have")
    offset = _offset(reader) if active else 0
    if flags & 3 and reader.byte() != (0x70 if expressions else 0):
        raise FormatError("the module has an element segment of something else than functions")
    functions = _items(reader, 1, "table elements", _reference if expressions else Reader.u32)
    return Element(offset=offset, functions=functions) if active else None


def _reference(reader: Reader) -> int:
    opcode = reader.byte()
    function = reader.u32() if opcode == 0xD2 else 0
    if opcode != 0xD2 or reader.byte() != 0x0B:
        raise FormatError("the module has an element segment of something else than functions")
    return function


def _body(reader: Reader) -> bytes:
    size = reader.u32()
    if size > FUNCTION_BYTES_MAX:
        raise TooLargeError(f"a function of the module has {size} bytes; at most {FUNCTION_BYTES_MAX} are accepted")
    return reader.take(size)


def _data(reader: Reader) -> None:
    flags = reader.u32()
    if flags not in (0, 2) or (flags == 2 and reader.u32() != 0):
        raise FormatError("the module has a passive or unknown data segment, which a guest may not")
    _offset(reader)
    reader.take(reader.u32())


def encode(module: Module) -> bytes:
    """Write a module; the same module always gives the same bytes."""
    out = bytearray(MAGIC)

    def section(number: int, content: bytes) -> None:
        out.append(number)
        out.extend(leb.u32(len(content)))
        out.extend(content)

    def listed(number: int, items: list[bytes]) -> None:
        if items:
            section(number, leb.vector(items))

    u32, name = leb.u32, leb.name
    types = [b"\x60" + u32(len(t.params)) + t.params + u32(len(t.results)) + t.results for t in module.types]
    listed(1, types)
    listed(2, [name(one.module) + name(one.name) + b"\0" + u32(one.type_index) for one in module.imports])
    listed(3, [u32(index) for index in module.function_types])
    if module.table_size is not None:
        section(4, b"\x01\x70\x01" + u32(module.table_size) * 2)
    if module.memory is not None:
        least, most = module.memory
        section(5, b"\x01" + (b"\0" + u32(least) if most is None else b"\x01" + u32(least) + u32(most)))
    listed(6, [bytes([one.value_type, one.mutable]) + one.init for one in module.globals])
    listed(7, [name(one.name) + bytes([one.kind]) + u32(one.index) for one in module.exports])
    if module.start is not None:
        section(8, u32(module.start))
    elements = [
        b"\0\x41" + leb.signed(_as_signed(one.offset)) + b"\x0b" + leb.vector([u32(item) for item in one.functions])
        for one in module.elements
    ]
    listed(9, elements)
    listed(10, [u32(len(body)) + body for body in module.bodies])
    if module.data_segments:
        section(11, module.data_segments)
    for title, content in module.customs:
        section(0, name(title) + content)
    return bytes(out)


def _as_signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
