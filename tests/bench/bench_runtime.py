"""The runtime room: changed pages, looks at the clock, stopping, starting, and what its imports cost."""

from __future__ import annotations

import compileall
import ctypes
import mmap
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from importlib import resources
from pathlib import Path

from tests.bench.harness import paired, percentile, process, report

from hhd.runtime import guest as guest_module
from hhd.runtime import pages
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Slice, StopFlag
from hhd_protocol.limits import PAGE_BYTES

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
SIZE = 64 * MIB
PAGES = SIZE // PAGE_BYTES


def main() -> None:
    """Print the figures as JSON lines."""
    for part in ("daemon/hhd", "protocol/hhd_protocol"):  # an installed hhd has its bytecode, too
        compileall.compile_dir(ROOT / part, quiet=1)
    with tempfile.TemporaryDirectory(prefix="hhd-bench-") as name:
        spin = resources.files("hhd.runtime").joinpath("modules/spin.wasm").read_bytes()
        module = Module.load(spin, cache=Path(name) / "modules")
        changed_pages()
        looks(module)
        stopping(module)
        starting(module, spin, Path(name) / "modules")
    ours = process(sys.executable, "-c", "import hhd.runtime.guest")
    measured = paired(ours, process(sys.executable, "-c", "import wasmtime"), n=25)
    report("import the runtime / import wasmtime", "import hhd.runtime.guest", "warm", **measured)


def memory(touched: bool) -> tuple[mmap.mmap, int]:
    """64 MiB with a byte changed in 1% of the pages, scattered; the others `touched` and zero, or never touched."""
    found = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(found))
    if touched:
        ctypes.memset(address, 0, SIZE)
    for page in random.Random(1).sample(range(PAGES), PAGES // 100):
        found[page * PAGE_BYTES + 100] = 1
    return found, address


def changed_pages() -> None:
    """Find the changed pages, against one memcmp of two equal memories."""
    compare = ctypes.PyDLL(None).memcmp
    content = os.urandom(MIB) * 64
    one, other = ctypes.create_string_buffer(content, SIZE), ctypes.create_string_buffer(content, SIZE)

    def memcmp() -> None:
        assert compare(one, other, ctypes.c_size_t(SIZE)) == 0

    for touched, baseline_size in ((False, 0), (True, 0), (True, SIZE)):
        kept, address = memory(touched)
        twin = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        twin_address = ctypes.addressof(ctypes.c_char.from_buffer(twin))

        def find(address: int = address, baseline: int = twin_address, size: int = baseline_size) -> None:
            runs = pages.changed_runs(address, SIZE, baseline, size)
            assert sum(end - first for first, end in runs) == PAGES // 100

        what = ("the others touched" if touched else "the others never touched") + (
            ", against a baseline" if baseline_size else ""
        )
        measured = paired(find, memcmp, n=60, warmup=3)
        report("changed pages of 64 MiB / memcmp", f"1% changed, {what}", "warm", **measured)
        del kept


def looks(module: Module) -> None:
    """A tight loop of twenty million checks, with the host's looks and with as few as can be."""

    def run(most: int) -> None:
        guest_module._CHECKS_AT_MOST = most
        guest = Guest.start(module, args=b'{"iterations":"20000000"}')
        guest.run(Slice())

    kept = guest_module._CHECKS_AT_MOST
    measured = paired(lambda: run(kept), lambda: run(1 << 30), n=25)
    guest_module._CHECKS_AT_MOST = kept
    report("tight loop with looks / without", "spin, 20 million checks", "warm", **measured)


def stopping(module: Module) -> None:
    """From setting the stop flag in another thread to the paused guest."""
    guest, took = Guest.start(module, args=b'{"iterations":"100000000000"}'), []
    for _ in range(200):
        stop, sent = StopFlag(), [0.0]

        def send(stop: StopFlag = stop, sent: list[float] = sent) -> None:
            time.sleep(0.01)
            sent[0] = time.perf_counter()
            stop.set()

        sender = threading.Thread(target=send)
        sender.start()
        guest.run(Slice(), stop=stop)
        took.append((time.perf_counter() - sent[0]) * 1000)
        sender.join()
    report(
        "stop flag to paused guest",
        "spin",
        "warm",
        n=len(took),
        median_ms=round(statistics.median(took), 3),
        p99_ms=round(percentile(took, 0.99), 3),
    )


def starting(module: Module, wasm: bytes, cache: Path) -> None:
    """Load a compiled module from the cache; make a guest of it, run one check, and put its snapshot back."""
    guest = Guest.start(module, args=b"{}")
    guest.run(Slice(checks=1000))
    snapshot = guest.snapshot()

    def load() -> None:
        Module.load(wasm, cache=cache)

    def resume() -> None:
        Guest.resume(module, snapshot, args=b"{}").run(Slice(checks=1))

    measured = paired(load, resume, n=100, warmup=3)
    report("load a compiled module; resume and run one check", "spin", "warm", **measured)
