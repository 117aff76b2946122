"""The process that compiles one module: WebAssembly on stdin, machine code on stdout, under limits of its own.

Exit status 1 with one line on stderr: the module is not valid. Killed by a signal: it reached a limit.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

ADDRESS_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Address space of the compiler: our largest module needs a tenth of it. (macOS does not enforce this limit.)"""

CPU_SECONDS_MAX = 240
"""Twice the wall time that the parent allows, since the compiler uses several threads."""


def main() -> int:
    """Compile stdin to stdout; `argv[1]` bounds the size of the result."""
    for kind, most in ((resource.RLIMIT_AS, ADDRESS_BYTES_MAX), (resource.RLIMIT_CPU, CPU_SECONDS_MAX)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most, hard) if hard == resource.RLIM_INFINITY else (min(most, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from hhd.runtime import wasmtime_c as c
    from hhd.runtime.engine import make_engine

    wasm = sys.stdin.buffer.read()
    module, vec = ctypes.c_void_p(), c.Vec()
    try:
        c.check(c.lib.wasmtime_module_new(make_engine(parallel_compilation=True), wasm, len(wasm), module))
        c.check(c.lib.wasmtime_module_serialize(module, vec))
    except c.VendorError as error:
        print(" ".join(str(error).split())[:300], file=sys.stderr)  # noqa: T201 (this is how it answers)
        return 1
    if vec.size > int(sys.argv[1]):
        print("its compiled form is larger than is allowed", file=sys.stderr)  # noqa: T201 (this is how it answers)
        return 1
    sys.stdout.buffer.write((ctypes.c_char * vec.size).from_address(vec.address or 0))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to tidy up, and freeing all that code takes longer than leaving it


if __name__ == "__main__":
    raise SystemExit(main())
