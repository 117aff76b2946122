"""The C API as this room declares it, held against the wheel's own declarations."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import wasmtime._bindings as wheel

from hhd.runtime import wasmtime_c as c


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (c.Val, "wasmtime_val"),
        (c.Func, "wasmtime_func"),
        (c.Item, "wasmtime_memory"),
        (c.Item, "wasmtime_global"),
        (c.Instance, "wasmtime_instance"),
        (c.Extern, "wasmtime_extern"),
        (c.Vec, "wasm_byte_vec_t"),
        (c.Vec, "wasm_importtype_vec_t"),
        (c.Vec, "wasm_valtype_vec_t"),
    ],
)
def test_structures_have_the_size_and_alignment_of_the_wheels(ours: type[ctypes.Structure], theirs: str) -> None:
    other = getattr(wheel, theirs)
    assert ctypes.sizeof(ours) == ctypes.sizeof(other)
    assert ctypes.alignment(ours) == ctypes.alignment(other)


def test_fields_that_are_read_lie_where_the_wheels_do() -> None:
    assert c.Val.bits.offset == wheel.wasmtime_val.of.offset
    assert c.Extern.of.offset == wheel.wasmtime_extern.of.offset
    assert c.Vec.address.offset == wheel.wasm_byte_vec_t.data.offset


@pytest.mark.parametrize("name", sorted(c.PROTOTYPES))
def test_prototypes_have_the_machine_types_of_the_wheels(name: str) -> None:
    result, arguments = c.PROTOTYPES[name]
    theirs = getattr(wheel, f"_{name}")
    assert _machine(result) == _machine(theirs.restype)
    assert [_machine(each) for each in arguments] == [_machine(each) for each in theirs.argtypes]


@pytest.mark.parametrize("name", c.SWITCHES)
def test_switches_exist_and_take_a_bool(name: str) -> None:
    theirs = getattr(wheel, f"_wasmtime_config_{name}_set")
    assert [_machine(each) for each in theirs.argtypes] == ["pointer", "u1"]


def test_kinds_and_trap_codes_are_the_wheels() -> None:
    import wasmtime._ffi as ffi

    assert tuple(getattr(ffi, f"WASMTIME_{k}").value for k in ("I32", "I64", "F32", "F64")) == (
        c.I32,
        c.I64,
        c.F32,
        c.F64,
    )
    assert ffi.WASMTIME_EXTERN_FUNC.value == c.EXTERN_FUNC
    assert ffi.WASMTIME_EXTERN_GLOBAL.value == c.EXTERN_GLOBAL
    assert ffi.WASMTIME_EXTERN_MEMORY.value == c.EXTERN_MEMORY
    codes = wheel.wasmtime_trap_code_enum
    assert codes.WASMTIME_TRAP_CODE_STACK_OVERFLOW.value == c.TRAP_STACK_OVERFLOW
    assert codes.WASMTIME_TRAP_CODE_MEMORY_OUT_OF_BOUNDS.value == c.TRAP_OUT_OF_BOUNDS
    assert codes.WASMTIME_TRAP_CODE_UNREACHABLE_CODE_REACHED.value == c.TRAP_UNREACHABLE


def _machine(kind: Any) -> str:
    """What the processor sees of a ctypes type: a pointer, or its size and sign."""
    if kind is None:
        return "nothing"
    if issubclass(kind, ctypes.c_void_p | ctypes.c_char_p | ctypes._Pointer | ctypes._CFuncPtr):
        return "pointer"
    if kind is ctypes.c_bool:
        return "u1"
    signed = kind(-1).value < 0
    return f"{'i' if signed else 'u'}{ctypes.sizeof(kind)}"
