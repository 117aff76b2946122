;; Emits terminal control sequences and text that changes its direction, then asks an effect and panics with the same.
(module
  (import "hhd1" "effect" (func $effect (param i32 i32 i32 i32) (result i32)))
  (import "hhd1" "emit" (func $emit (param i32 i32)))
  (import "hhd1" "panic" (func $panic (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\1b[2J\1b]0;owned\07\1b[31mred\1b[0m\u{202e}dlrow\u{202c}\r\9b1mraw\00\7f\n")
  (data (i32.const 256) "echo")
  (func (export "hhd_run")
    (call $emit (i32.const 0) (i32.const 48))
    (drop (call $effect (i32.const 256) (i32.const 4) (i32.const 0) (i32.const 48)))
    (call $panic (i32.const 0) (i32.const 48))
    unreachable))
