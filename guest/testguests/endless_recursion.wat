;; Calls itself for ever, keeping something at each level.
(module
  (memory (export "memory") 1)
  (func $down (param i64) (result i64)
    (i64.xor (local.get 0) (call $down (i64.add (local.get 0) (i64.const 1)))))
  (func (export "hhd_run")
    (drop (call $down (i64.const 0)))))
