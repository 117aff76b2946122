"""Small guest programs in WebAssembly text, each with one habit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import wasmtime

from hhd.runtime.instrument.passes import instrument_binary

ROOT = Path(__file__).parents[2]

_IMPORTS = """
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (import "hhd1" "reply" (func $reply (param i32 i32 i32)))
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (import "hhd1" "args" (func $args (param i32 i32) (result i32)))
  (memory (export "memory") 2)
"""

SOURCES = {
    # Asks twice for a tool and says what it got; runs a loop between, so that it can be cut there too.
    "asks": """
      (data (i32.const 0) "tool")
      (data (i32.const 16) "first")
      (data (i32.const 32) "second")
      (func $spin (local i32) (local.set 0 (i32.const 5000))
        (loop $again (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $again (local.get 0))))
      (func (export "hhd_run") (local $n i32)
        (call $emit (i32.const 16) (i32.const 5))
        (call $spin)
        (local.set $n (call $effect (i32.const 0) (i32.const 4) (i32.const 16) (i32.const 5)))
        (call $spin)
        (call $reply (i32.const 1024) (i32.const 0) (local.get $n))
        (call $emit (i32.const 1024) (local.get $n))
        (local.set $n (call $effect (i32.const 0) (i32.const 4) (i32.const 32) (i32.const 6)))
        (call $reply (i32.const 1024) (i32.const 0) (local.get $n))
        (call $spin)
        (call $emit (i32.const 1024) (local.get $n)))""",
    # Sums floats and NaNs by recursion through a table, grows memory and says the bytes of its result.
    "mixed": """
      (type $step (func (param i32 f64) (result f64)))
      (table 2 funcref) (elem (i32.const 0) $down $other)
      (func $down (type $step)
        (if (result f64) (i32.eqz (local.get 0)) (then (local.get 1))
          (else (call_indirect (type $step)
            (i32.sub (local.get 0) (i32.const 1))
            (f64.add (f64.sqrt (local.get 1)) (f64.convert_i32_u (local.get 0)))
            (i32.and (local.get 0) (i32.const 1))))))
      (func $other (type $step)
        (if (result f64) (i32.eqz (local.get 0)) (then (local.get 1))
          (else (f64.mul (f64.const 1.0000001)
            (call $down (i32.sub (local.get 0) (i32.const 1)) (f64.div (local.get 1) (f64.const 3)))))))
      (func (export "hhd_run") (local $i i32)
        (loop $again
          (f64.store (i32.const 64)
            (call $down (i32.const 300) (f64.convert_i32_s (i32.sub (local.get $i) (i32.const 9)))))
          (i32.store8
            (i32.add (i32.mul (i32.sub (memory.size) (i32.const 1)) (i32.const 65536)) (local.get $i))
            (local.get $i))
          (drop (memory.grow (i32.const 1)))
          (call $emit (i32.const 64) (i32.const 8))
          (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 12)))))""",
    # Touches every page of 16 MiB, then spins for ever.
    "busy": """
      (func (export "hhd_run") (local $i i32)
        (drop (memory.grow (i32.const 254)))
        (loop $touch
          (i32.store (local.get $i) (local.get $i))
          (br_if $touch (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 409600))) (i32.const 16700000))))
        (loop $ever (br $ever)))""",
    # Fills 2 MiB with bytes that do not compress, then spins for ever.
    "noise": """
      (func (export "hhd_run") (local $i i32) (local $n i32)
        (drop (memory.grow (i32.const 32)))
        (loop $fill
          (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 1664525)) (i32.const 1013904223)))
          (i32.store (local.get $i) (i32.xor (local.get $n) (i32.shr_u (local.get $n) (i32.const 16))))
          (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (i32.const 2097152))))
        (loop $ever (br $ever)))""",
    # Fails: traps after a while.
    "traps": """
      (func (export "hhd_run") (local i32) (local.set 0 (i32.const 3000))
        (loop $again (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if $again (local.get 0)))
        (unreachable))""",
    # Hands over bytes that lie outside its memory.
    "lies": """(func (export "hhd_run") (call $emit (i32.const 65536) (i32.const 2000000000)))""",
    # Emits a terminal escape and a byte that is no text.
    "paints": """
      (data (i32.const 0) "\\1b[2Jred\\07\\ff")
      (func (export "hhd_run") (call $emit (i32.const 0) (i32.const 9)))""",
    # Recurses deeper than a pause has room for, comes back up, says the sum, and counts to 200000.
    "plunges": """
      (func $down (param i32) (result i64) (local i64)
        (local.set 1 (i64.extend_i32_s (local.get 0)))
        (if (result i64) (local.get 0)
          (then (i64.add (call $down (i32.sub (local.get 0) (i32.const 1))) (local.get 1))) (else (i64.const 0))))
      (func (export "hhd_run") (local i32)
        (i64.store (i32.const 0) (call $down (i32.const 40000)))
        (loop $again (br_if $again (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 200000))))
        (call $emit (i32.const 0) (i32.const 8)))""",
    # Recurses for ever.
    "deep": """
      (func $down (param i32) (result i32)
        (i32.add (call $down (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
      (func (export "hhd_run") (drop (call $down (i32.const 0))))""",
}


def plain_text(name: str) -> str:
    """The program as text."""
    return f"(module {_IMPORTS} {SOURCES[name]})"


def instrumented(text: str) -> bytes:
    """Any program, made pausable."""
    return instrument_binary(bytes(wasmtime.wat2wasm(text)), trusted=False).module


@cache
def plain(name: str) -> bytes:
    """The program before instrumentation."""
    return bytes(wasmtime.wat2wasm(plain_text(name)))


@cache
def wasm(name: str) -> bytes:
    """The instrumented program; `spin` is the one that comes with hhd."""
    if name == "spin":
        return (ROOT / "daemon/hhd/runtime/modules/spin.wasm").read_bytes()
    return instrument_binary(plain(name), trusted=False).module
