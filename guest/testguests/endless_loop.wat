;; Turns for ever; interrupt checks can pause it anywhere.
(module
  (memory (export "memory") 1)
  (func (export "hhd_run")
    (loop $next
      (i64.store (i32.const 0) (i64.add (i64.load (i32.const 0)) (i64.const 1)))
      (br $next))))
