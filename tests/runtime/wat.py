"""Guests written by hand as WebAssembly text, so that tests need no toolchain and can break any rule on purpose.

`module` fills in what the guest ABI asks for; every part can be replaced. The default program counts upwards in a
global, one interrupt check a step, emits each thousandth number, asks for the effect `ask` once, at 2500, and ends at
5000. It does by hand what Asyncify does: it returns while unwinding, and leaves four bytes on the Asyncify stack.
"""

from __future__ import annotations

import functools

import wasmtime

from hhd_protocol import codec
from hhd_protocol.abi import INSTRUMENTED_SECTION

IMPORTS = """
 (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
 (import "hhd1" "reply" (func $reply (param i32 i32 i32)))
 (import "hhd1" "emit" (func $emit (param i32 i32)))
 (import "hhd1" "panic" (func $panic (param i32 i32)))
 (import "hhd1" "args" (func $args (param i32 i32) (result i32)))
 (import "hhd1" "yield" (func $yield))
"""
MEMORY = '(memory (export "memory") 2)'
GLOBALS = """
 (global $countdown (export "hhd_countdown") (mut i32) (i32.const 0))
 (global $n (export "n") (mut i32) (i32.const 0))
 (global $state (mut i32) (i32.const 0))
 (global $stack (mut i32) (i32.const 0))
"""
ASYNCIFY = {
    "start_unwind": """(param i32) (global.set $state (i32.const 1)) (global.set $stack (local.get 0))
      (i32.store (local.get 0) (i32.add (i32.load (local.get 0)) (i32.const 4)))""",
    "stop_unwind": "(global.set $state (i32.const 0))",
    "start_rewind": """(param i32) (global.set $state (i32.const 2))
      (i32.store (local.get 0) (i32.sub (i32.load (local.get 0)) (i32.const 4)))""",
    "stop_rewind": "(global.set $state (i32.const 0))",
    "get_state": "(result i32) (global.get $state)",
}
CHECK = """
   (global.set $countdown (i32.sub (global.get $countdown) (i32.const 1)))
   (if (i32.lt_s (global.get $countdown) (i32.const 0)) (then
     (call $yield)
     (if (i32.eq (global.get $state) (i32.const 1)) (then (return)))))
"""
RUN = f"""
  (if (i32.eq (global.get $state) (i32.const 2)) (then
    (if (i32.and (i32.eq (global.get $n) (i32.const 2500)) (i32.load (i32.const 260)))
      (then (drop (call $effect (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))) (call $answered))
      (else (call $yield)))
    (call $after)
    (if (i32.eq (global.get $state) (i32.const 1)) (then (return)))))
  (loop $steps
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    {CHECK}
    (call $after)
    (if (i32.eq (global.get $state) (i32.const 1)) (then (return)))
    (br_if $steps (i32.lt_u (global.get $n) (i32.const 5000))))
"""
PROGRAM = """
 (data (i32.const 64) "askwhy?")
 (func $answered
   (call $reply (i32.const 128) (i32.const 0) (i32.const 3))
   (call $emit (i32.const 128) (i32.const 3)))
 (func $after
   (if (i32.eqz (i32.rem_u (global.get $n) (i32.const 1000))) (then
     (i32.store (i32.const 256) (global.get $n))
     (i32.store (i32.mul (global.get $n) (i32.const 20)) (global.get $n))
     (call $emit (i32.const 256) (i32.const 4))))
   (if (i32.and (i32.eq (global.get $n) (i32.const 2500)) (i32.eqz (i32.load (i32.const 260)))) (then
     (i32.store (i32.const 260) (i32.const 1))
     (drop (call $effect (i32.const 64) (i32.const 3) (i32.const 67) (i32.const 4))))))
"""


def module(
    *,
    run: str | None = None,
    imports: str = IMPORTS,
    memory: str = MEMORY,
    global_items: str = GLOBALS,
    program: str = "",
    section: bool = True,
    **asyncify: str,
) -> bytes:
    """A module of these parts, with the section that says it is instrumented."""
    if run is None:
        run, program = RUN, PROGRAM + program
    exports = "\n".join(f'(func (export "asyncify_{name}") {body})' for name, body in {**ASYNCIFY, **asyncify}.items())
    return raw_module(
        f'(module {imports} {memory} {global_items} {exports} {program} (func $run (export "hhd_run") {run}))', section
    )


@functools.cache
def raw_module(text: str, section: bool = True) -> bytes:
    """A module from its whole text."""
    wasm = bytes(wasmtime.wat2wasm(text))
    return wasm + custom_section(INSTRUMENTED_SECTION, codec.encode({"abi": 1, "pass": 1})) if section else wasm


def custom_section(name: str, payload: bytes) -> bytes:
    """A custom section, for payloads of less than 16 KiB."""
    body = bytes([len(name)]) + name.encode() + payload
    return bytes([0, len(body) & 0x7F | 0x80, len(body) >> 7]) + body
