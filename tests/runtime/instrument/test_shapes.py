"""Every shape of loop, branch and call, by hand: cut at each check, a run ends as the plain module's does."""

from __future__ import annotations

import pytest
import wasmtime
from tests.runtime.instrument.host import ENGINE, Run, run_cut

from hhd.runtime.instrument import instrument
from hhd.runtime.instrument.passes import instrument_binary

HEAD = """(module
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $say (param i64) (i64.store (i32.const 0) (local.get 0)) (call $emit (i32.const 0) (i32.const 8)))
  (func $turns (param i32) (result i32)
    (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3)) (local.get 0)))
      (br_if $next (i32.gt_s (local.tee 0 (i32.sub (local.get 0) (i32.const 1))) (i32.const 0))))
    (local.get $sum))
"""

SHAPES = {
    "a loop in an if in a block": """
      (func (export "hhd_run") (local $n i32)
        (block $out (if (i32.eqz (local.get $n)) (then
          (loop $next
            (br_if $out (i32.gt_u (local.get $n) (i32.const 9)))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (call $say (i64.extend_i32_u (local.get $n)))
            (br $next)))))
        (call $say (i64.const -1)))""",
    "loops in both arms, and an else without sites": """
      (func $pick (param i32) (result i32)
        (if (result i32) (i32.and (local.get 0) (i32.const 1))
          (then (call $turns (local.get 0)))
          (else (if (result i32) (i32.and (local.get 0) (i32.const 2))
            (then (i32.mul (local.get 0) (i32.const 100)))
            (else (i32.add (call $turns (i32.const 3)) (call $turns (local.get 0))))))))
      (func (export "hhd_run") (local $n i32)
        (loop $next
          (call $say (i64.extend_i32_s (call $pick (local.get $n))))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 9)))))""",
    "a value that only the next turn needs": """
      (func (export "hhd_run") (local $n i32) (local $kept i64)
        (local.set $kept (i64.const 3))
        (loop $next
          (call $say (local.get $kept))
          (local.set $kept (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 7)))
          (drop (call $turns (i32.const 3)))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5)))))""",
    "loops within loops, left from the innermost": """
      (func (export "hhd_run") (local $a i32) (local $b i32) (local $c i32)
        (block $out
          (loop $outer
            (local.set $b (i32.const 0))
            (loop $middle
              (local.set $c (i32.const 0))
              (loop $inner
                (call $say (i64.extend_i32_u (i32.add (i32.mul (local.get $a) (i32.const 100)) (local.get $c))))
                (br_if $out (i32.gt_u (i32.add (local.get $a) (local.get $c)) (i32.const 6)))
                (local.set $c (i32.add (local.get $c) (i32.const 1)))
                (br_if $inner (i32.lt_u (local.get $c) (i32.const 4))))
              (br_if $middle (i32.lt_u (local.tee $b (i32.add (local.get $b) (i32.const 1))) (i32.const 2))))
            (local.set $a (i32.add (local.get $a) (i32.const 1)))
            (br $outer)))
        (call $say (i64.extend_i32_u (local.get $a))))""",
    "a table of branches to loops and blocks": """
      (func (export "hhd_run") (local $n i32) (local $steps i32)
        (loop $again
          (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
          (block $done
            (block $three (block $two (block $one
              (br_table $one $two $three $again $done (i32.rem_u (local.get $steps) (i32.const 5))))
              (call $say (i64.const 1)) (br $again))
              (call $say (i64.const 2))
              (local.set $n (call $turns (local.get $steps))))
            (call $say (i64.extend_i32_s (local.get $n)))
            (br_if $again (i32.lt_u (local.get $steps) (i32.const 12))))
          (br_if $again (i32.lt_u (local.get $steps) (i32.const 20))))
        (call $say (i64.extend_i32_u (local.get $steps))))""",
    "a loop with parameters and results": """
      (func (export "hhd_run") (local $n i32)
        (i64.const 5) (i64.const 7)
        (i64.const 1) (i32.const 8)
        (loop $next (param i64 i32) (result i64)
          (i32.const 1) (i32.sub) (local.set $n)
          (i64.const 3) (i64.mul) (i64.extend_i32_s (call $turns (local.get $n))) (i64.add)
          (local.get $n)
          (br_if $next (local.get $n))
          (drop))
        (i64.add) (i64.mul) (call $say))""",
    "a block with parameters and results around a call": """
      (func $two (param i32) (result i64 i32) (i64.extend_i32_s (call $turns (local.get 0))) (i32.const 4))
      (func (export "hhd_run")
        (f64.const 2.5) (i32.const 6) (i64.const 11)
        (block (param i32 i64) (result i64 f32)
          (call $say)
          (call $two)
          (f32.convert_i32_s))
        (i64.trunc_f32_s) (i64.add) (call $say)
        (i64.reinterpret_f64) (call $say))""",
    "operands of all types wait under calls": """
      (func (export "hhd_run")
        (i32.const 3) (i64.const 4) (f32.const 0.5) (f64.const -0.25) (v128.const i64x2 9 8)
        (call $turns (i32.const 5)) (i64.extend_i32_s) (call $say)
        (i64x2.extract_lane 1) (call $say)
        (i64.reinterpret_f64) (call $say)
        (i32.reinterpret_f32) (i64.extend_i32_s) (call $say)
        (call $say)
        (call $turns) (i64.extend_i32_s) (call $say))""",
    "operands wait under a loop and an if": """
      (func (export "hhd_run") (local $n i32)
        (i64.const 40)
        (i64.const 2)
        (loop $next (call $say (i64.extend_i32_u (local.get $n)))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 3))))
        (if (result i64) (local.get $n) (then (i64.extend_i32_s (call $turns (local.get $n)))) (else (i64.const 1)))
        (i64.add) (i64.mul) (call $say))""",
    "an if without else passes its parameters on": """
      (func $maybe (param i32) (result i64)
        (i64.const 77) (local.get 0)
        (if (param i64) (result i64) (then (call $say) (i64.extend_i32_s (call $turns (i32.const 4))))))
      (func (export "hhd_run") (call $say (call $maybe (i32.const 0))) (call $say (call $maybe (i32.const 1))))""",
    "branches carry values to the function itself": """
      (func $early (param i32) (result i64 i32)
        (i64.const 1) (i32.const 2)
        (br_if 0 (i32.eqz (local.get 0)))
        (drop) (drop)
        (block $inner (result i64)
          (i64.extend_i32_s (call $turns (local.get 0)))
          (br_if $inner (i32.eq (local.get 0) (i32.const 1)))
          (drop)
          (return (i64.const 3) (i32.const 4)))
        (i32.const 5))
      (func (export "hhd_run") (local $n i32)
        (loop $next
          (call $early (local.get $n)) (i64.extend_i32_s) (call $say) (call $say)
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 3)))))""",
    "a table of branches with values, to blocks with and without sites": """
      (func $choose (param i32) (result i64)
        (block $plain (result i64)
          (block $sites (result i64)
            (i64.extend_i32_s (call $turns (i32.const 2)))
            (drop)
            (br_table $sites $plain 2 (i64.const 10) (local.get 0)))
          (i64.const 1) (i64.add))
        (i64.const 5) (i64.mul))
      (func (export "hhd_run") (local $n i32)
        (loop $next
          (call $say (call $choose (local.get $n)))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 4)))))""",
    "a block without sites lies within a table's reach": """
      (func $choose (param i32) (result i64)
        (block $a (result i64)
          (block $b (result i64)
            (br_table $a $b (i64.const 10) (local.get 0)))
          (drop)
          (i64.extend_i32_s (call $turns (i32.const 2))))
        (i64.const 5) (i64.mul))
      (func (export "hhd_run") (call $say (call $choose (i32.const 0))) (call $say (call $choose (i32.const 1))))""",
    "self recursion": """
      (func $f (param i32) (result i64)
        (if (result i64) (i32.eqz (local.get 0)) (then (i64.const 1))
          (else (i64.mul (i64.extend_i32_u (local.get 0)) (call $f (i32.sub (local.get 0) (i32.const 1)))))))
      (func (export "hhd_run") (call $say (call $f (i32.const 12))))""",
    "recursion through the table": """
      (type $t (func (param i32) (result i64)))
      (table funcref (elem $f $g))
      (func $f (type $t)
        (if (result i64) (i32.eqz (local.get 0)) (then (i64.const 1))
          (else (i64.add (i64.const 3) (call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1))
            (i32.and (local.get 0) (i32.const 1)))))))
      (func $g (type $t) (i64.mul (i64.const 5) (call $f (i32.shr_u (local.get 0) (i32.const 1)))))
      (func (export "hhd_run") (call $say (call $f (i32.const 40))))""",
    "dead code": """
      (func $f (param i32) (result i32)
        (block $out
          (br $out)
          (loop $never (call $say (i64.const 1)) (br $never)))
        (loop $once (result i32)
          (if (local.get 0) (then (local.set 0 (call $turns (local.get 0))) (return (local.get 0)) (br $once)))
          (br 1 (i32.const 7))
          (drop) (i32.add) (drop)))
      (func (export "hhd_run")
        (call $say (i64.extend_i32_s (i32.add (call $f (i32.const 0)) (call $f (i32.const 4))))))""",
    "a loop whose end is never reached": """
      (func $f (result i64) (local $n i32)
        (loop $next (result i64)
          (if (i32.gt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5))
            (then (return (i64.extend_i32_u (local.get $n)))))
          (br $next)))
      (func (export "hhd_run") (call $say (call $f)))""",
    "bulk memory with operands under it": """
      (func (export "hhd_run")
        (i64.const 6)
        (memory.fill (i32.const 64) (i32.const 7) (i32.const 32))
        (memory.copy (i32.const 100) (i32.const 60) (i32.const 16))
        (i64.add (i64.load (i32.const 100))) (call $say))""",
    "globals of every type": """
      (global $a (mut i32) (i32.const 1)) (global $b (mut i64) (i64.const 2))
      (global $c (mut f32) (f32.const 3)) (global $d (mut f64) (f64.const 4)) (global $e i64 (i64.const 50))
      (func (export "hhd_run") (local $n i32)
        (loop $next
          (global.set $a (i32.mul (global.get $a) (i32.const -3)))
          (global.set $b (i64.add (global.get $b) (i64.extend_i32_s (global.get $a))))
          (global.set $c (f32.div (global.get $c) (f32.const 7)))
          (global.set $d (f64.sub (global.get $d) (f64.promote_f32 (global.get $c))))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 20))))
        (call $say (global.get $b)) (call $say (i64.reinterpret_f64 (global.get $d))) (call $say (global.get $e)))""",
    "effects within nested calls": """
      (func $ask (param i32) (result i32) (i32.add (local.get 0)
        (call $effect (i32.const 0) (i32.const 1) (i32.const 8) (local.get 0))))
      (func $ask_twice (param i32) (result i32) (i32.mul (call $ask (local.get 0)) (call $ask (i32.const 2))))
      (func (export "hhd_run") (local $n i32)
        (loop $next
          (call $say (i64.extend_i32_s (call $ask_twice (local.get $n))))
          (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 3)))))""",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_run_is_an_uncut_run(shape: str) -> None:
    runs = run_cut(HEAD + SHAPES[shape] + ")", replies=[bytes(number) for number in (3, 1, 4, 1, 5, 9)])
    assert len(runs["plain"]) >= 8
    assert set(runs.values()) == {runs["plain"]}


@pytest.mark.parametrize(
    "shape", ["self recursion", "recursion through the table", "loops within loops, left from the innermost"]
)
def test_each_turn_and_each_round_of_calls_can_be_cut(shape: str) -> None:
    run = Run(wasmtime.Module(ENGINE, instrument(wasmtime.wat2wasm(HEAD + SHAPES[shape] + ")"))))
    run.to_end(0)
    assert run.slices >= 8


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_has_as_many_checks_however_it_is_cut(shape: str) -> None:
    module = wasmtime.Module(ENGINE, instrument(wasmtime.wat2wasm(HEAD + SHAPES[shape] + ")")))
    counts = set()
    for cut in (None, 0, 1, 3, 10):
        run = Run(module, replies=[bytes(3)] * 9)
        run.to_end(cut)
        counts.add(run.checks)
    assert len(counts) == 1, counts


def test_the_same_module_gives_the_same_bytes() -> None:
    plain = bytes(wasmtime.wat2wasm(HEAD + SHAPES["recursion through the table"] + ")"))
    assert instrument(plain) == instrument(plain)


def test_a_function_that_cannot_pause_is_left_as_it_was() -> None:
    text = HEAD + '(func (export "hhd_run") (call $say (i64.const 1))))'
    result = instrument_binary(wasmtime.wat2wasm(text), trusted=False)
    assert result.plan.pausing == {1, 3}, "the effect import, and the loop in $turns"


def test_a_frame_without_room_traps_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + SHAPES["self recursion"].replace("i32.const 12", "i32.const 9000") + ")"
    module = wasmtime.Module(ENGINE, instrument(wasmtime.wat2wasm(text)))
    assert len(Run(module).to_end()) == 8, "uncut, nothing is unwound"
    run = Run(module)
    monkeypatch.setattr("tests.runtime.instrument.host.STACK_WASM_PAGES", 1)
    with pytest.raises(Exception, match="unreachable"):
        run.to_end(8000)
