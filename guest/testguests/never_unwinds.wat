;; Says that it is instrumented, calls yield again and again, and never leaves its stack when asked to.
(module
  (import "hhd1" "yield" (func $yield))
  (memory (export "memory") 1)
  (global (export "hhd_countdown") (mut i32) (i32.const 0))
  (func (export "hhd_run") (loop $next (call $yield) (br $next)))
  (func (export "asyncify_start_unwind") (param i32))
  (func (export "asyncify_stop_unwind"))
  (func (export "asyncify_start_rewind") (param i32))
  (func (export "asyncify_stop_rewind"))
  (func (export "asyncify_get_state") (result i32) (i32.const 0))
  (@custom "hhd.instrumented" "\a2cabi\01dpass\01"))
