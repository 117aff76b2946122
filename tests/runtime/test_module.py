"""Modules that do not keep to the guest ABI are refused with one sentence."""

from __future__ import annotations

import pytest
from tests.runtime import wat
from tests.runtime.conftest import Load

from hhd.base.errors import RefusedError
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Finished, Slice
from hhd_protocol import codec
from hhd_protocol.limits import MODULE_BYTES_MAX

REFUSED: dict[str, tuple[str, bytes]] = {
    "empty": ("not a WebAssembly binary", b""),
    "text": ("not a WebAssembly binary", b"(module)"),
    "a component": ("not a WebAssembly binary", b"\0asm\x0d\0\1\0"),
    "cut short": ("past its end", wat.module()[:200]),
    "an endless number": ("malformed", b"\0asm\1\0\0\0\0\xff\xff\xff\xff\xff\xff\xff"),
    "cut in a number": ("malformed", b"\0asm\1\0\0\0\0\xff"),
    "not instrumented": ("not instrumented", wat.module(section=False)),
    "a start function": ("start function", wat.module(program="(func $begin) (start $begin)")),
    "not valid": ("refused: ", wat.raw_module("(module)") + b"\x0a\x04\1\2\0\x0b"),
    "another import": ("wasi.exit", wat.module(imports=wat.IMPORTS + '(import "wasi" "exit" (func))')),
    "escapes in names": (r"\\x1b", wat.module(imports=wat.IMPORTS + '(import "\\1b[31m" "x" (func))')),
    "an unknown import of ours": ("hhd1.fly", wat.module(imports=wat.IMPORTS + '(import "hhd1" "fly" (func))')),
    "another type of import": (
        "hhd1.yield with another type",
        wat.module(imports=wat.IMPORTS + '(import "hhd1" "yield" (func (param i32)))'),
    ),
    "an imported memory": (
        "hhd1.memory",
        wat.module(imports=wat.IMPORTS + '(import "hhd1" "memory" (memory 1))', memory=""),
    ),
    "no exports": ("does not export", wat.raw_module("(module)")),
    "another type of export": (
        "asyncify_get_state with another type",
        wat.module(get_state="(result i64) (i64.const 0)"),
    ),
    "no memory": ("does not export its memory", wat.module(memory="(memory 2)")),
    "no countdown": ("hhd_countdown", wat.module(global_items=wat.GLOBALS.replace('(export "hhd_countdown")', ""))),
    "a countdown that is fixed": (
        "hhd_countdown",
        wat.module(
            run="",
            global_items=wat.GLOBALS.replace("hhd_countdown", "other").replace("other", "o", 1)
            + '(global (export "hhd_countdown") i32 (i32.const 0))',
        ),
    ),
    "a reference in a global": (
        "holds what cannot be saved",
        wat.module(global_items=wat.GLOBALS + '(global (export "f") (mut funcref) (ref.null func))'),
    ),
    "threads": ("refused: ", wat.module(memory='(memory (export "memory") 2 9 shared)')),
    "memory64": ("refused: ", wat.module(memory='(memory (export "memory") i64 2)', run="")),
    "two memories": ("refused: ", wat.module(memory='(memory (export "memory") 2) (memory 1)')),
    "a vector in a global": (
        "types that the guest ABI does not have",
        wat.module(global_items=wat.GLOBALS + '(global (export "v") (mut v128) (v128.const i64x2 0 0))'),
    ),
    "a vector in an export": (
        "types that the guest ABI does not have",
        wat.module(get_state="(result v128) (v128.const i64x2 0 0)"),
    ),
    "too many globals": (
        "mutable globals",
        wat.module(
            global_items=wat.GLOBALS + "".join(f'(global (export "g{n}") (mut i32) (i32.const 0))' for n in range(64))
        ),
    ),
    "a global with a long name": (
        "mutable globals",
        wat.module(global_items=wat.GLOBALS + f'(global (export "{"g" * 257}") (mut i32) (i32.const 0))'),
    ),
    "too many imports": (
        "it imports 66 things",
        wat.module(imports=wat.IMPORTS + '(import "hhd1" "yield" (func))' * 60),
    ),
    "too many exports": (
        "it exports 5009 things",
        wat.module(program="".join(f'(export "e{n}" (func $run))' for n in range(5000))),
    ),
    "too many sections": ("more than 1000 sections", b"\0asm\1\0\0\0" + b"\0\1\0" * 1001),
    "a changing table": (
        "it uses references",
        wat.module(program="(table 2 funcref) (func (table.set (i32.const 0) (ref.null func)))"),
    ),
    "dropped data": ("refused: ", wat.module(program='(data $d "x") (func (data.drop $d))')),
    "hidden globals": (
        "hides globals",
        wat.module(global_items=wat.GLOBALS + "(global (mut i32) (i32.const 0))" * 90),
    ),
    "a stamp that says nothing": (
        "for which guest ABI",
        wat.module(section=False) + wat.custom_section("hhd.instrumented", codec.encode({})),
    ),
    "a stamp of a later ABI": (
        "guest ABI 2",
        wat.module(section=False) + wat.custom_section("hhd.instrumented", codec.encode({"abi": 2, "pass": 1})),
    ),
    "relaxed vectors": (
        "refused: ",
        wat.module(program="(func (param v128) (drop (f32x4.relaxed_min (local.get 0) (local.get 0))))"),
    ),
    "exceptions": ("refused: ", wat.module(program="(tag $t) (func (throw $t))")),
    "tail calls": ("refused: ", wat.module(program="(func $t (return_call $t))")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_module_that_does_not_fit_is_refused_with_one_sentence(load: Load, what: str) -> None:
    why, wasm = REFUSED[what]
    with pytest.raises(RefusedError, match=why) as caught:
        load(wasm)
    assert str(caught.value).startswith("The module was refused: ")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("a memory past the limit", {"memory": '(memory (export "memory") 20000)'}),
        ("no room for the stack of a pause", {"memory": '(memory (export "memory") 2 5)'}),
        ("data outside its memory", {"program": '(data (i32.const 0x7fffffff) "x")'}),
        ("a huge table", {"program": "(table 100000000 funcref)"}),
        ("many tables", {"program": "(table 1 funcref)" * 40}),
    ],
)
def test_a_module_that_does_not_fit_the_limits_is_refused_when_it_is_set_up(
    load: Load, what: str, parts: dict[str, str]
) -> None:
    with pytest.raises(RefusedError, match="The module was refused: "):
        Guest.start(load(wat.module(**parts)), args=b"{}")


def test_a_module_that_just_fits_is_set_up(load: Load) -> None:
    """The positive control of both tables."""
    Guest.start(load(wat.module(memory='(memory (export "memory") 2 6)', program="(table 1000 funcref)")), args=b"{}")


def test_vectors_that_stay_inside_are_welcome(load: Load) -> None:
    vectors = "(local v128) (local.set 0 (i32x4.splat (i32.const 7))) (v128.store (i32.const 0) (local.get 0))"
    guest = Guest.start(load(wat.module(run=vectors + "(call $emit (i32.const 0) (i32.const 16))")), args=b"{}")
    assert guest.run(Slice()) == Finished()
    assert guest.take_transcript() == b"\7\0\0\0" * 4


def test_a_module_past_the_bound_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(RefusedError, match="more than"):
        Module.load(bytes(MODULE_BYTES_MAX + 1))


def test_the_shape_is_read_off_the_module(load: Load) -> None:
    shape = load(wat.module()).shape
    assert shape.imports == ("effect", "reply", "emit", "panic", "args", "yield")
    assert dict(shape.globals) == {"hhd_countdown": 0, "n": 0}
    assert shape.memory_bytes == 2 * 65536
