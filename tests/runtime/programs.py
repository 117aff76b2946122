"""Plain guest programs as WebAssembly text, made pausable by our own pass: one for each thing that is hard to pause in.

`instrumented(name)` is the module. Each emits what it computes as it goes, so that one wrong bit shows.
"""

from __future__ import annotations

import functools
from importlib import resources

import wasmtime

from hhd.runtime.instrument.passes import instrument_binary

HEAD = """(module
 (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
 (import "hhd1" "reply" (func $reply (param i32 i32 i32)))
 (import "hhd1" "emit" (func $emit (param i32 i32)))
 (memory (export "memory") 2)
 (data (i32.const 16) "ask")
 (func $say (param i64) (i64.store (i32.const 64) (local.get 0)) (call $emit (i32.const 64) (i32.const 8)))
"""

PROGRAMS = {
    "recursion": """
 (func $fib (param $n i32) (result i64)
   (if (result i64) (i32.lt_s (local.get $n) (i32.const 2))
     (then (i64.extend_i32_s (local.get $n)))
     (else (i64.add
       (call $fib (i32.sub (local.get $n) (i32.const 1)))
       (call $fib (i32.sub (local.get $n) (i32.const 2)))))))
 (func (export "hhd_run") (local $i i32)
   (loop $more
     (call $say (call $fib (local.get $i)))
     (br_if $more (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 17)))))
""",
    "indirect calls": """
 (type $step (func (param i64 i32) (result i64)))
 (table 3 funcref) (elem (i32.const 0) $double $odd $mix)
 (func $double (type $step) (i64.mul (local.get 0) (i64.const 2)))
 (func $odd (type $step)
   (if (result i64) (i32.eqz (local.get 1))
     (then (i64.xor (local.get 0) (i64.const 0x5bd1e995)))
     (else (call_indirect (type $step) (i64.rotl (local.get 0) (i64.const 7)) (i32.sub (local.get 1) (i32.const 1))
       (i32.rem_u (local.get 1) (i32.const 3))))))
 (func $mix (type $step) (local $k i32)
   (loop $l
     (local.set 0 (i64.add (local.get 0) (i64.extend_i32_u (local.get $k))))
     (br_if $l (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (local.get 1))))
   (call $odd (local.get 0) (i32.shr_u (local.get 1) (i32.const 1))))
 (func (export "hhd_run") (local $i i32) (local $x i64)
   (loop $more
     (local.set $x (call_indirect (type $step) (local.get $x) (local.get $i) (i32.rem_u (local.get $i) (i32.const 3))))
     (call $say (local.get $x))
     (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 120)))))
""",
    "floats and NaNs": """
 (global $f (export "f") (mut f32) (f32.const nan:0x200001))
 (global $g (export "g") (mut f64) (f64.const -nan:0x4000000000001))
 (func $roll (param $x f64) (result f64)
   (f64.add (f64.mul (local.get $x) (f64.const 1.0000001)) (f64.sqrt (f64.sub (f64.const 3) (local.get $x)))))
 (func (export "hhd_run") (local $i i32) (local $x f64) (local $n f64) (local $s f32)
   (local.set $n (f64.const nan:0x8000000000123))
   (loop $more
     (local.set $x (call $roll (local.get $x)))
     (call $say (i64.reinterpret_f64 (local.get $x)))
     (call $say (i64.reinterpret_f64 (f64.min (local.get $n) (local.get $x))))
     (local.set $s (f32.demote_f64 (f64.div (local.get $x) (f64.sub (local.get $x) (local.get $x)))))
     (call $say (i64.extend_i32_u (i32.reinterpret_f32 (local.get $s))))
     (call $say (i64.reinterpret_f64 (f64.promote_f32 (global.get $f))))
     (call $say (i64.reinterpret_f64 (f64.copysign (global.get $g) (local.get $x))))
     (global.set $f (f32.neg (global.get $f)))
     (if (f64.ne (local.get $x) (local.get $x)) (then (local.set $x (f64.convert_i32_s (local.get $i)))))
     (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 700)))))
""",
    "growing memory": """
 (func (export "hhd_run") (local $i i32) (local $at i32)
   (loop $more
     (local.set $at (i32.mul (memory.grow (i32.rem_u (local.get $i) (i32.const 3))) (i32.const 65536)))
     (memory.fill (i32.sub (local.get $at) (i32.const 5000)) (local.get $i) (i32.const 3000))
     (memory.copy
       (i32.sub (local.get $at) (i32.const 9000)) (i32.sub (local.get $at) (i32.const 4096)) (i32.const 1000))
     (i32.store (i32.sub (local.get $at) (i32.const 4)) (local.get $i))
     (if (i32.eq (i32.rem_u (local.get $i) (i32.const 50)) (i32.const 49)) (then
       (call $emit (i32.sub (local.get $at) (i32.const 10000)) (i32.const 10000))))
     (call $say (i64.extend_i32_u (memory.size)))
     (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 300)))))
""",
    "deep stacks": """
 (func $down (param $n i32) (param $a i64) (result i64) (local $b f64) (local $c i32)
   (local.set $b (f64.convert_i32_s (local.get $n)))
   (local.set $c (i32.mul (local.get $n) (i32.const 31)))
   (if (result i64) (local.get $n)
     (then (i64.add
       (call $down (i32.sub (local.get $n) (i32.const 1)) (i64.mul (local.get $a) (i64.const 6364136223846793005)))
       (i64.add (i64.trunc_f64_s (local.get $b)) (i64.xor (local.get $a) (i64.extend_i32_s (local.get $c))))))
     (else (local.get $a))))
 (func (export "hhd_run") (local $i i32)
   (loop $more
     (call $say (call $down (i32.mul (local.get $i) (i32.const 250)) (i64.extend_i32_s (local.get $i))))
     (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10)))))
""",
    "effects in deep calls": """
 (func $ask (param $depth i32) (result i32) (local $got i32)
   (if (local.get $depth) (then
     (return (i32.add (call $ask (i32.sub (local.get $depth) (i32.const 1))) (local.get $depth)))))
   (local.set $got (call $effect (i32.const 16) (i32.const 3) (i32.const 64) (i32.const 8)))
   (call $reply (i32.const 128) (i32.const 0) (local.get $got))
   (call $emit (i32.const 128) (local.get $got))
   (local.get $got))
 (func (export "hhd_run") (local $i i32) (local $j i32)
   (loop $more
     (i32.store (i32.const 64) (local.get $i))
     (call $say (i64.extend_i32_s (call $ask (local.get $i))))
     (local.set $j (i32.const 0))
     (loop $idle (br_if $idle (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 50))))
     (call $reply (i32.const 128) (i32.const 1) (i32.const 3))
     (call $emit (i32.const 128) (i32.const 3))
     (br_if $more (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 40)))))
""",
}

NAMES = [*PROGRAMS, "spin"]
ARGS = {"spin": b'{"iterations":"5000"}'}


@functools.cache
def instrumented(name: str) -> bytes:
    """The module of a program here, or of one that comes with hhd."""
    if name not in PROGRAMS:
        return resources.files("hhd.runtime").joinpath(f"modules/{name}.wasm").read_bytes()
    return plain(HEAD + PROGRAMS[name] + ")")


def plain(text: str) -> bytes:
    """Any program as text, made pausable."""
    return instrument_binary(bytes(wasmtime.wat2wasm(text)), trusted=False).module
