"""Wasmtime's C API, as far as this room calls it.

The wheel `wasmtime` brings the shared library; its Python face is left alone, since importing it builds the prototypes
of some 800 functions (35 ms here, against 5 ms for these), and since it turns floats into Python floats, which loses
the bits of NaNs. `tests/runtime/test_wasmtime_c.py` holds every structure and signature here against the wheel's own.
The way out, should the C API change: write the same few classes over the wheel's Python face.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import POINTER, c_bool, c_int64, c_size_t, c_uint8, c_uint64, c_void_p
from importlib.machinery import PathFinder
from typing import Any


class Val(ctypes.Structure):
    """A value with its kind; `bits` is the whole of every numeric kind."""

    _fields_ = (("kind", c_uint8), ("bits", c_uint64), ("rest", c_uint64 * 2))


class Func(ctypes.Structure):
    """A function of a store."""

    _fields_ = (("store", c_uint64), ("private", c_void_p))


class Item(ctypes.Structure):
    """A memory or a global of a store: the library's own handle, never looked into."""

    _fields_ = (("store", c_uint64), ("private", c_uint64 * 2))


class Instance(ctypes.Structure):
    """An instance of a store."""

    _fields_ = (("store", c_uint64), ("private", c_size_t))


class ExternItem(ctypes.Union):
    """What an `Extern` holds, by its kind."""

    _fields_ = (("func", Func), ("item", Item))


class Extern(ctypes.Structure):
    """Something that can be imported or exported."""

    _fields_ = (("kind", c_uint8), ("of", ExternItem))


class Vec(ctypes.Structure):
    """A vector of bytes or of pointers."""

    _fields_ = (("size", c_size_t), ("address", c_void_p))


EXTERN_FUNC, EXTERN_GLOBAL, EXTERN_TABLE, EXTERN_MEMORY = 0, 1, 2, 3
I32, I64, F32, F64 = 0, 1, 2, 3

TRAP_STACK_OVERFLOW, TRAP_OUT_OF_BOUNDS, TRAP_UNREACHABLE = 0, 1, 9

HostFunction = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p, c_size_t)
"""(environment, caller, arguments and results as 16-byte slots, their number) -> address of a trap or None."""

_P, _S = c_void_p, c_size_t
PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "wasm_config_new": (_P, ()),
    "wasm_engine_new_with_config": (_P, (_P,)),
    "wasmtime_config_async_stack_size_set": (None, (_P, c_uint64)),
    "wasmtime_config_max_wasm_stack_set": (None, (_P, _S)),
    "wasmtime_module_new": (_P, (_P, _P, _S, POINTER(_P))),
    "wasmtime_module_serialize": (_P, (_P, POINTER(Vec))),
    "wasmtime_module_deserialize": (_P, (_P, _P, _S, POINTER(_P))),
    "wasmtime_module_delete": (None, (_P,)),
    "wasmtime_module_imports": (None, (_P, POINTER(Vec))),
    "wasmtime_module_exports": (None, (_P, POINTER(Vec))),
    "wasm_importtype_vec_delete": (None, (POINTER(Vec),)),
    "wasm_exporttype_vec_delete": (None, (POINTER(Vec),)),
    "wasm_importtype_module": (POINTER(Vec), (_P,)),
    "wasm_importtype_name": (POINTER(Vec), (_P,)),
    "wasm_importtype_type": (_P, (_P,)),
    "wasm_exporttype_name": (POINTER(Vec), (_P,)),
    "wasm_exporttype_type": (_P, (_P,)),
    "wasm_externtype_kind": (c_uint8, (_P,)),
    "wasm_externtype_as_functype_const": (_P, (_P,)),
    "wasm_externtype_as_globaltype_const": (_P, (_P,)),
    "wasm_externtype_as_memorytype_const": (_P, (_P,)),
    "wasm_functype_params": (POINTER(Vec), (_P,)),
    "wasm_functype_results": (POINTER(Vec), (_P,)),
    "wasm_valtype_kind": (c_uint8, (_P,)),
    "wasm_globaltype_content": (_P, (_P,)),
    "wasm_globaltype_mutability": (c_uint8, (_P,)),
    "wasmtime_memorytype_minimum": (c_uint64, (_P,)),
    "wasmtime_memorytype_is64": (c_bool, (_P,)),
    "wasmtime_memorytype_isshared": (c_bool, (_P,)),
    "wasmtime_store_new": (_P, (_P, _P, _P)),
    "wasmtime_store_context": (_P, (_P,)),
    "wasmtime_store_limiter": (None, (_P, c_int64, c_int64, c_int64, c_int64, c_int64)),
    "wasmtime_store_delete": (None, (_P,)),
    "wasmtime_func_new_unchecked": (None, (_P, _P, HostFunction, _P, _P, POINTER(Func))),
    "wasmtime_instance_new": (_P, (_P, _P, _P, _S, POINTER(Instance), POINTER(_P))),
    "wasmtime_instance_export_get": (c_bool, (_P, POINTER(Instance), ctypes.c_char_p, _S, POINTER(Extern))),
    "wasmtime_caller_context": (_P, (_P,)),
    "wasmtime_func_call": (_P, (_P, POINTER(Func), _P, _S, _P, _S, POINTER(_P))),
    "wasmtime_global_get": (None, (_P, POINTER(Item), POINTER(Val))),
    "wasmtime_global_set": (_P, (_P, POINTER(Item), POINTER(Val))),
    "wasmtime_memory_data": (_P, (_P, POINTER(Item))),
    "wasmtime_memory_data_size": (_S, (_P, POINTER(Item))),
    "wasmtime_memory_grow": (_P, (_P, POINTER(Item), c_uint64, POINTER(c_uint64))),
    "wasmtime_error_message": (None, (_P, POINTER(Vec))),
    "wasmtime_error_delete": (None, (_P,)),
    "wasm_trap_message": (None, (_P, POINTER(Vec))),
    "wasm_trap_delete": (None, (_P,)),
    "wasmtime_trap_code": (c_bool, (_P, POINTER(c_uint8))),
    "wasmtime_trap_new": (_P, (ctypes.c_char_p, _S)),
    "wasm_byte_vec_delete": (None, (POINTER(Vec),)),
}
SWITCHES = (
    "wasm_threads",
    "shared_memory",
    "wasm_tail_call",
    "wasm_reference_types",
    "wasm_function_references",
    "wasm_gc",
    "gc_support",
    "wasm_simd",
    "wasm_relaxed_simd",
    "wasm_bulk_memory",
    "wasm_multi_value",
    "wasm_multi_memory",
    "wasm_memory64",
    "wasm_wide_arithmetic",
    "wasm_exceptions",
    "wasm_custom_page_sizes",
    "wasm_stack_switching",
    "wasm_component_model",
    "epoch_interruption",
    "consume_fuel",
    "cranelift_nan_canonicalization",
    "parallel_compilation",
    "native_unwind_info",
    "debug_info",
)
"""Settings of the engine that are on or off; each is set through `wasmtime_config_NAME_set`."""


def library_path() -> str:
    """The shared library of the installed wheel. Raises ImportError where there is none."""
    found = PathFinder.find_spec("wasmtime")
    if found is None or found.origin is None:
        raise ImportError("the package wasmtime is not installed")
    machine = {"arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
    ending = "dylib" if sys.platform == "darwin" else "so"
    return os.path.join(os.path.dirname(found.origin), f"{sys.platform}-{machine}", f"_libwasmtime.{ending}")


def _load() -> ctypes.CDLL:
    lib = ctypes.CDLL(library_path())
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    for name in SWITCHES:
        function = getattr(lib, f"wasmtime_config_{name}_set")
        function.restype, function.argtypes = None, (c_void_p, c_bool)
    return lib


lib = _load()


class VendorError(Exception):
    """The library refused; the message is its own, first line only."""


class TrapError(Exception):
    """WebAssembly code trapped; `code` is a trap code of the library, None for a trap of the host's."""

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__(message)
        self.code = code


def check(error: int | None) -> None:
    """Raise VendorError if `error`, the address of an error object, is one."""
    if error:
        message = _taken_text(lib.wasmtime_error_message, error)
        lib.wasmtime_error_delete(error)
        raise VendorError(message)


def check_trap(trap: c_void_p) -> None:
    """Raise TrapError if `trap` was filled in by a call."""
    if trap.value:
        code = c_uint8()
        known = lib.wasmtime_trap_code(trap, code)
        message = _taken_text(lib.wasm_trap_message, trap.value)
        lib.wasm_trap_delete(trap)
        raise TrapError(message, code.value if known else None)


def text(vec: Vec) -> str:
    """The text a vector holds; the vector stays its owner's."""
    return ctypes.string_at(vec.address, vec.size).decode("utf-8", "replace") if vec.size else ""


def kinds(vec: Vec) -> tuple[int, ...]:
    """The kinds of the value types that a vector points to."""
    return tuple(lib.wasm_valtype_kind(pointer) for pointer in pointers(vec))


def pointers(vec: Vec) -> list[int]:
    """The addresses that a vector holds."""
    return list((c_uint64 * vec.size).from_address(vec.address)) if vec.size else []


def _taken_text(call: Callable[[int, Any], None], source: int) -> str:
    vec = Vec()
    call(source, ctypes.byref(vec))
    message = text(vec).rstrip("\0")
    lib.wasm_byte_vec_delete(ctypes.byref(vec))
    return message
