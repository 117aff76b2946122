;; Grows its memory from one wasm page to forty, writes into each new page, then emits a sum over all it wrote.
(module
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (memory (export "memory") 1 200)
  (func (export "hhd_run")
    (local $page i32) (local $at i32) (local $sum i64) (local $first i32)
    (loop $grow
      (local.set $first (memory.grow (i32.const 1)))
      (local.set $at (i32.mul (local.get $first) (i32.const 65536)))
      (i32.store (i32.mul (local.get $page) (i32.const 4)) (local.get $at))
      (i64.store offset=8 (local.get $at) (i64.mul (i64.extend_i32_u (local.get $page)) (i64.const 0x9e3779b97f4a7c15)))
      (memory.fill (i32.add (local.get $at) (i32.const 8192)) (local.get $page) (i32.const 300))
      (memory.copy (i32.add (local.get $at) (i32.const 40000)) (local.get $at) (i32.const 100))
      (br_if $grow (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (i32.const 40))))
    (local.set $page (i32.const 0))
    (loop $read
      (local.set $at (i32.load (i32.mul (local.get $page) (i32.const 4))))
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 7)) (i64.xor
        (i64.load (i32.add (local.get $at) (i32.const 40008))) (i64.load (i32.add (local.get $at) (i32.const 8300))))))
      (br_if $read (i32.lt_u (local.tee $page (i32.add (local.get $page) (i32.const 1))) (i32.const 40))))
    (i64.store (i32.const 1024) (local.get $sum))
    (i32.store (i32.const 1032) (i32.sub (memory.size) (local.get $first)))
    (call $emit (i32.const 1024) (i32.const 12))))
