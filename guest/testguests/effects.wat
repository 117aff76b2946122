;; Asks three effects named echo, each with the reply to the one before; emits every reply and a line end.
(module
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (import "hhd1" "reply" (func $reply (param i32 i32 i32)))
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "echo")
  (data (i32.const 8) "\n")
  (data (i32.const 1024) "first")
  (func (export "hhd_run")
    (local $round i32) (local $length i32)
    (local.set $length (i32.const 5))
    (loop $next
      (local.set $length (call $effect (i32.const 0) (i32.const 4) (i32.const 1024) (local.get $length)))
      (if (i32.gt_u (local.get $length) (i32.const 60000)) (then (unreachable)))
      (call $reply (i32.const 1024) (i32.const 0) (local.get $length))
      (call $emit (i32.const 1024) (local.get $length))
      (call $emit (i32.const 8) (i32.const 1))
      (br_if $next (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const 3))))))
