"""The process that looks at one module and compiles it: WebAssembly on stdin, machine code on stdout, under limits.

Exit status REFUSED with one line on stderr: the module is not valid. OUT_OF_MEMORY, or killed by a signal: it reached
a limit.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

REFUSED, OUT_OF_MEMORY = 3, 4

AT_THE_BORDER = b"looking at imports and exports\n"
"""Said on stderr once the module is valid and before its types are read: the library aborts at one that its C API does
not know (vectors), and better here than in the process that runs guests."""

THREADS_MAX = 4
"""Threads of the compiler: more gain little, and each takes 70 MiB of address space."""

ADDRESS_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Address space of the compiler: our largest module needs a tenth of it. (macOS does not enforce this limit.)"""

CPU_SECONDS_MAX = 240
"""Twice the wall time that the parent allows, since the compiler uses several threads."""


def main() -> int:
    """Compile stdin to stdout; `argv[1]` bounds the size of the result."""
    import hhd.runtime.instrument
    import hhd.runtime.module  # noqa: F401 (our own code is loaded before the limits, which are the module's)

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
    from hhd.base.errors import RefusedError
    from hhd.runtime import wasmtime_c as c
    from hhd.runtime.engine import make_engine
    from hhd.runtime.instrument import insist_on_instrumented
    from hhd.runtime.module import REFUSAL, read_shape
    from hhd_protocol.errors import FormatError

    module, vec = ctypes.c_void_p(), c.Vec()
    try:
        c.check(c.lib.wasmtime_module_new(make_engine(parallel_compilation=True), wasm, len(wasm), module))
        c.check(c.lib.wasmtime_module_serialize(module, vec))
    except c.VendorError as error:
        said = " ".join(str(error).split())[:250]
        return _refuse(f"it is not valid WebAssembly of the kind that runs here ({said})")
    if vec.size > compiled_bytes_max:
        return _refuse("its compiled form is larger than is allowed")
    os.write(2, AT_THE_BORDER)
    try:
        read_shape(module.value or 0)
    except RefusedError as error:
        return _refuse(str(error).removeprefix(REFUSAL).removesuffix("."))
    try:
        insist_on_instrumented(wasm)  # the module only claims it; what a snapshot would miss is looked for here
    except FormatError as error:
        said = str(error)
        return _refuse(f"it {said.removeprefix('the module ')}" if said.startswith("the module ") else said)
    sys.stdout.buffer.write((ctypes.c_char * vec.size).from_address(vec.address or 0))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to tidy up, and freeing all that code takes longer than leaving it


def _refuse(why: str) -> int:
    os.write(2, why.encode())
    return REFUSED


if __name__ == "__main__":
    raise SystemExit(main())
