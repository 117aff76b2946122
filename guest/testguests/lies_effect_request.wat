;; Names a range that is not within its memory (or its reply) in one call.
(module
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (import "hhd1" "reply" (func $reply (param i32 i32 i32)))
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (import "hhd1" "panic" (func $panic (param i32 i32)))
  (import "hhd1" "args" (func $args (param i32 i32) (result i32)))
  (memory (export "memory") 1 1000)
  (data (i32.const 0) "echo")
  (func (export "hhd_run")
    (call $emit (i32.const 0) (i32.const 4))
    (drop (call $effect (i32.const 0) (i32.const 4) (i32.const 16) (i32.const -1)))
    (call $emit (i32.const 0) (i32.const 4))))
