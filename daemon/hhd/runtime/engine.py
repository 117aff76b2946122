"""The one configuration of the engine that all guests run under.

A snapshot must mean the same on every processor, so whatever a processor may decide is off: NaN bits are
canonical, relaxed SIMD and threads are refused. Features whose state a snapshot would miss are refused as well.
Epochs and fuel are off: they add a load to every loop, and the interrupt checks of the guest do their work; what
stops a module that lies about having checks is said in `hhd.runtime.thread`.
"""

from __future__ import annotations

import functools
import os

from hhd.runtime import wasmtime_c as c

WASM_STACK_BYTES_MAX = 64 * 1024 * 1024
"""Native stack of a guest. The guest's own limits come first (its shadow stack of 128 KiB, the 256 KiB that Asyncify
may unwind into: some ten thousand frames of a few hundred native bytes): those are the same on every processor."""

THREAD_STACK_BYTES = WASM_STACK_BYTES_MAX + 16 * 1024 * 1024
"""Stack of the thread a guest runs on: the host's functions need room below the guest's. Unused stack is free."""

SETTINGS: dict[str, bool] = {
    **dict.fromkeys(c.SWITCHES, False),
    "cranelift_nan_canonicalization": True,
    "wasm_bulk_memory": True,
    "wasm_multi_value": True,
    "wasm_reference_types": True,
    "wasm_simd": True,
}


@functools.cache
def engine() -> int:
    """The address of this process's engine; made at the first call and kept."""
    return make_engine(parallel_compilation=False)


def make_engine(*, parallel_compilation: bool) -> int:
    """Make an engine. Compiled code of both kinds is the same; only a process that ends soon should compile in parallel
    (compiling before and after a fork hangs in the library's thread pool)."""
    config = c.lib.wasm_config_new()
    for name, value in {**SETTINGS, "parallel_compilation": parallel_compilation}.items():
        getattr(c.lib, f"wasmtime_config_{name}_set")(config, value)
    c.lib.wasmtime_config_async_stack_size_set(config, THREAD_STACK_BYTES)
    c.lib.wasmtime_config_max_wasm_stack_set(config, WASM_STACK_BYTES_MAX)
    address = c.lib.wasm_engine_new_with_config(config)
    assert address, "the engine's settings contradict each other"
    return int(address)


@functools.cache
def engine_identity() -> str:
    """What compiled code depends on besides its source: settings, the library, the processor and its features."""
    library = os.stat(c.library_path())
    settings = ",".join(name for name, value in sorted(SETTINGS.items()) if value)
    return "\n".join(
        ("1", settings, f"{library.st_size}.{library.st_mtime_ns}", os.uname().machine, _processor_features())
    )


def _processor_features() -> str:
    try:
        with open("/proc/cpuinfo", "rb") as file:
            lines = file.read(16384).split(b"\n")
    except OSError:
        return os.uname().version
    kept = (b"flags", b"Features", b"CPU part", b"model name")
    return "\n".join(sorted({line.decode("ascii", "replace") for line in lines if line.startswith(kept)}))
