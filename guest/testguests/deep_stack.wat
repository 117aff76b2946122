;; Five thousand calls deep, each level holding locals of every kind until the way back; emits what they add up to.
(module
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (memory (export "memory") 1)
  (func $down (param $depth i32) (param $x f64) (result i64)
    (local $mine i64) (local $half f32)
    (local.set $mine (i64.mul (i64.extend_i32_u (local.get $depth)) (i64.const 0x9e3779b97f4a7c15)))
    (local.set $half (f32.div (f32.convert_i32_u (local.get $depth)) (f32.const 2)))
    (if (i32.eqz (local.get $depth)) (then (return (i64.reinterpret_f64 (local.get $x)))))
    (i64.add
      (i64.xor
        (local.get $mine)
        (call $down (i32.sub (local.get $depth) (i32.const 1)) (f64.mul (local.get $x) (f64.const 1.0001))))
      (i64.trunc_f32_s (local.get $half))))
  (func (export "hhd_run")
    (i64.store (i32.const 0) (call $down (i32.const 5000) (f64.const 1)))
    (call $emit (i32.const 0) (i32.const 8))))
