"""An instrumented module of which it is known that it keeps to the guest ABI (`protocol/spec/guest-abi.md`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.runtime import wasmtime_c as c
from hhd.runtime.compiled import load_compiled
from hhd_protocol.abi import COUNTDOWN, ENTRY, IMPORT_MODULE, INSTRUMENTED_SECTION
from hhd_protocol.ids import Sha256
from hhd_protocol.limits import GLOBAL_NAME_BYTES_MAX, GLOBALS_MAX, MODULE_BYTES_MAX, WASM_PAGE_BYTES

FuncType = tuple[tuple[int, ...], tuple[int, ...]]

_I = c.I32
IMPORTS: Final[Mapping[str, FuncType]] = {
    "effect": ((_I, _I, _I, _I), (_I,)),
    "reply": ((_I, _I, _I), ()),
    "emit": ((_I, _I), ()),
    "panic": ((_I, _I), ()),
    "args": ((_I, _I), (_I,)),
    "yield": ((), ()),
}
EXPORTS: Final[Mapping[str, FuncType]] = {
    ENTRY: ((), ()),
    "asyncify_start_unwind": ((_I,), ()),
    "asyncify_stop_unwind": ((), ()),
    "asyncify_start_rewind": ((_I,), ()),
    "asyncify_stop_rewind": ((), ()),
    "asyncify_get_state": ((), (_I,)),
}
REFUSAL = "The module was refused: "
_EXPORTS_MAX = 4096
"""Each is looked at once, a few microseconds; programs have a dozen."""

_IMPORTS_MAX = 64
"""The ABI has six; a compiler may name one twice."""

_SECTIONS_MAX = 1000
"""Fourteen kinds, each at most once, and custom ones: compilers write a dozen."""

_START_SECTION = 8
_ASYNCIFY_OWN = frozenset({"__asyncify_state", "__asyncify_data"})
_NUMERIC = (c.I32, c.I64, c.F32, c.F64)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a module brings to the border: `imports` in order, mutable `globals` with their kinds, memory in bytes."""

    imports: tuple[str, ...]
    globals: Mapping[str, int]
    memory_bytes: int

    @property
    def saved_globals(self) -> list[str]:
        """The globals that belong to a snapshot: all but those by which Binaryen's Asyncify keeps its own state."""
        return [name for name in self.globals if name not in _ASYNCIFY_OWN]


class Module:
    """A compiled module that keeps to the ABI. It may be shared by any number of guests of this process."""

    def __init__(self, *, address: int, sha256: Sha256) -> None:
        """Take over the compiled module at `address`. Raises RefusedError unless it keeps to the ABI."""
        self.address, self.sha256 = address, sha256
        self._import_vec = c.Vec()
        c.lib.wasmtime_module_imports(address, self._import_vec)
        self._imports = c.pointers(self._import_vec)
        self.shape = read_shape(address)

    @staticmethod
    def load(wasm: bytes, *, cache: Path | None = None) -> Module:
        """Compile `wasm`, or take its compiled form from `cache` (by default the user's), and insist on the ABI.

        Raises RefusedError, with one sentence, for a module that is too large, not valid, not instrumented or that does
        not keep to the ABI, and for one that takes too long or too much memory to compile.
        """
        if len(wasm) > MODULE_BYTES_MAX:
            raise _refused(f"it has {len(wasm)} bytes, more than the {MODULE_BYTES_MAX} that are allowed")
        sections = set(section_names(wasm))
        if _START_SECTION in sections:
            raise _refused("it has a start function, which could not be paused")
        if INSTRUMENTED_SECTION not in sections:
            raise _refused("it is not instrumented")
        address, sha256 = load_compiled(wasm, cache=cache)
        return Module(address=address, sha256=sha256)

    def import_types(self) -> list[int]:
        """The addresses of the types of the imports, in order; they live as long as the module."""
        return [c.lib.wasm_externtype_as_functype_const(c.lib.wasm_importtype_type(each)) for each in self._imports]

    def __del__(self) -> None:
        c.lib.wasm_importtype_vec_delete(self._import_vec)
        c.lib.wasmtime_module_delete(self.address)


def section_names(wasm: bytes) -> Iterator[int | str]:
    """The ids of the sections of a binary, custom ones by their names. Raises RefusedError where it is malformed."""
    if wasm[:8] != b"\0asm\1\0\0\0":
        raise _refused("it is not a WebAssembly binary of version 1")
    at, count = 8, 0
    while at < len(wasm):
        count += 1
        if count > _SECTIONS_MAX:
            raise _refused(f"it has more than {_SECTIONS_MAX} sections")
        identity = wasm[at]
        size, at = _leb(wasm, at + 1)
        if size > len(wasm) - at:
            raise _refused("one of its sections reaches past its end")
        if identity == 0:
            length, begin = _leb(wasm, at)
            yield wasm[begin : begin + min(length, size)].decode("utf-8", "replace")
        else:
            yield identity
        at += size


def _leb(wasm: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(wasm):
            break
        byte = wasm[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise _refused("one of its numbers is malformed")


def read_shape(module: int) -> Shape:
    """The shape of a compiled module. Raises RefusedError unless it keeps to the ABI."""
    vec = c.Vec()
    c.lib.wasmtime_module_imports(module, vec)
    try:
        if vec.size > _IMPORTS_MAX:
            raise _refused(f"it imports {vec.size} things, more than the {_IMPORTS_MAX} that are allowed")
        imports = tuple(_import_name(each) for each in c.pointers(vec))
    finally:
        c.lib.wasm_importtype_vec_delete(vec)
    c.lib.wasmtime_module_exports(module, vec)
    try:
        if vec.size > _EXPORTS_MAX:
            raise _refused(f"it exports {vec.size} things, more than the {_EXPORTS_MAX} that are allowed")
        exports = {
            c.text(c.lib.wasm_exporttype_name(each).contents): c.lib.wasm_exporttype_type(each)
            for each in c.pointers(vec)
        }
        return _shape(imports, exports)
    finally:
        c.lib.wasm_exporttype_vec_delete(vec)


def _import_name(each: int) -> str:
    module = c.text(c.lib.wasm_importtype_module(each).contents)
    name = c.text(c.lib.wasm_importtype_name(each).contents)
    if module != IMPORT_MODULE or name not in IMPORTS:
        raise _refused(f"it imports {_shown(module)}.{_shown(name)}, which the guest ABI does not have")
    if _func_type(c.lib.wasm_importtype_type(each)) != IMPORTS[name]:
        raise _refused(f"it imports {module}.{name} with another type than the guest ABI gives it")
    return name


def _shape(imports: tuple[str, ...], exports: Mapping[str, int]) -> Shape:
    for name, expected in EXPORTS.items():
        if name not in exports:
            raise _refused(f"it does not export {name}")
        if _func_type(exports[name]) != expected:
            raise _refused(f"it exports {name} with another type than the guest ABI gives it")
    if "memory" not in exports or c.lib.wasm_externtype_kind(exports["memory"]) != c.EXTERN_MEMORY:
        raise _refused("it does not export its memory")
    found = {name: _global_kind(address) for name, address in exports.items()}
    mutable = {name: kind for name, kind in found.items() if kind is not None}
    if mutable.get(COUNTDOWN) != c.I32:
        raise _refused(f"it does not export {COUNTDOWN}")
    if len(mutable) > GLOBALS_MAX or max(len(name.encode()) for name in mutable) > GLOBAL_NAME_BYTES_MAX:
        raise _refused(f"it has more than {GLOBALS_MAX} mutable globals, or one with a name that is too long")
    for name, kind in mutable.items():
        if kind not in _NUMERIC:
            raise _refused(f"its global {_shown(name)} holds what cannot be saved")
    memory = c.lib.wasm_externtype_as_memorytype_const(exports["memory"])
    if c.lib.wasmtime_memorytype_is64(memory) or c.lib.wasmtime_memorytype_isshared(memory):
        raise _refused("its memory is not a plain 32-bit one")
    return Shape(
        imports=imports,
        globals=dict(sorted(mutable.items())),
        memory_bytes=c.lib.wasmtime_memorytype_minimum(memory) * WASM_PAGE_BYTES,
    )


def _func_type(extern: int) -> FuncType | None:
    if c.lib.wasm_externtype_kind(extern) != c.EXTERN_FUNC:
        return None
    func = c.lib.wasm_externtype_as_functype_const(extern)
    return c.kinds(c.lib.wasm_functype_params(func).contents), c.kinds(c.lib.wasm_functype_results(func).contents)


def _global_kind(extern: int) -> int | None:
    """The kind of a mutable global; None for anything else."""
    if c.lib.wasm_externtype_kind(extern) != c.EXTERN_GLOBAL:
        return None
    found = c.lib.wasm_externtype_as_globaltype_const(extern)
    if not c.lib.wasm_globaltype_mutability(found):
        return None
    return int(c.lib.wasm_valtype_kind(c.lib.wasm_globaltype_content(found)))


def _shown(name: str) -> str:
    return visible(name[:80], one_line=True)


def _refused(why: str) -> RefusedError:
    return RefusedError(f"{REFUSAL}{why}.")
