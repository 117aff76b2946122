"""The process that compiles one module: WebAssembly on stdin, machine code on stdout, under limits of its own.

Exit status REFUSED with one line on stderr: the module is not valid. OUT_OF_MEMORY, or killed by a signal: it reached
a limit.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

REFUSED, OUT_OF_MEMORY = 3, 4

THREADS_MAX = 4
"""Threads of the compiler: more gain little, and each takes 70 MiB of address space."""

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
    os.environ["RAYON_NUM_THREADS"] = str(THREADS_MAX)  # the library's own default is one per core
    try:
        return _compile(sys.stdin.buffer.read(), int(sys.argv[1]))
    except MemoryError:
        return OUT_OF_MEMORY


def _compile(wasm: bytes, compiled_bytes_max: int) -> int:
    from hhd.runtime import wasmtime_c as c
    from hhd.runtime.engine import make_engine

    module, vec = ctypes.c_void_p(), c.Vec()
    try:
        c.check(c.lib.wasmtime_module_new(make_engine(parallel_compilation=True), wasm, len(wasm), module))
        c.check(c.lib.wasmtime_module_serialize(module, vec))
    except c.VendorError as error:
        said = " ".join(str(error).split())[:250]
        print(f"it is not valid WebAssembly of the kind that runs here ({said})", file=sys.stderr)  # noqa: T201 (this is how it answers)
        return REFUSED
    if vec.size > compiled_bytes_max:
        print("its compiled form is larger than is allowed", file=sys.stderr)  # noqa: T201 (this is how it answers)
        return REFUSED
    sys.stdout.buffer.write((ctypes.c_char * vec.size).from_address(vec.address or 0))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to tidy up, and freeing all that code takes longer than leaving it


if __name__ == "__main__":
    raise SystemExit(main())
