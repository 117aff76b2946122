"""Makes a plain guest module pausable: interrupt checks, and a way to leave the stack and come back to it.

`driver` is the door: `pausable`, `instrument`, `claims_instrumented`, `insist_on_instrumented`. Behind it, `leb`,
`opcodes`, `module` and `code` read and write the binary format; `callgraph` decides where checks stand; `liveness` and
`shape` prepare a function, `unwind` rewrites it; `passes` puts the module together.
"""

from __future__ import annotations

from hhd.runtime.instrument.driver import claims_instrumented, insist_on_instrumented, instrument, pausable

__all__ = ["claims_instrumented", "insist_on_instrumented", "instrument", "pausable"]
