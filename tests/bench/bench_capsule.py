"""Capsules: a step in a fresh process, a save, a stop, and what the command line costs before it does anything."""

from __future__ import annotations

import compileall
import ctypes
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import wasmtime
from tests.bench.harness import paired, percentile, process, report, timed

from hhd.base import files
from hhd.node import capsule_file, capsules
from hhd.node.capsule_session import CapsuleSession
from hhd.runtime.guest import Guest
from hhd.runtime.instrument.passes import instrument_binary
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Slice, StopFlag
from hhd_protocol import capsule
from hhd_protocol.capsule import At, Capsule, Execution
from hhd_protocol.ids import LineId
from hhd_protocol.limits import PAGE_BYTES

ROOT = Path(__file__).parents[2]
HHD = str(Path(sys.executable).with_name("hhd"))
MIB = 1024 * 1024

TOUCHES = """
(module (import "hhd1" "emit" (func $emit (param i32 i32))) (memory (export "memory") 2)
  (func (export "hhd_run") (local $i i32) (local $n i32) (local $to i32)
    (drop (memory.grow (i32.const {grow})))
    (loop $touch
      (i32.store (local.get $i) (i32.const 0))
      (br_if $touch (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4096))) (i32.const {touched}))))
    (local.set $i (i32.const 0))
    (loop $page
      (local.set $to (i32.add (local.get $i) (i32.const {bytes})))
      (loop $fill
        (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 1664525)) (i32.const 1013904223)))
        (i32.store (local.get $i) (i32.and (local.get $n) (i32.const 0x3f1f0f07)))
        (br_if $fill (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $to))))
      (br_if $page (i32.lt_u
        (local.tee $i (i32.add (local.get $i) (i32.const {stride}))) (i32.const {end}))))
    (loop $ever (br $ever))))
"""


def touching(mib: int, share: float, *, all_pages: bool = False) -> bytes:
    """A program with `mib` MiB of memory, of whose pages `share`, scattered, hold half-random bytes; then it spins.

    With `all_pages` it wrote to every other page too, what was there before.
    """
    step = int(PAGE_BYTES / share)
    grow = mib * 16 - 2 - 4
    end = mib * MIB - 2 * step
    text = TOUCHES.format(
        grow=grow, bytes=PAGE_BYTES, stride=step - PAGE_BYTES, end=end, touched=end if all_pages else 0
    )
    return instrument_binary(bytes(wasmtime.wat2wasm(text)), trusted=False).module


@contextmanager
def without_sync() -> Iterator[None]:
    """Saves that do not wait for the disk, which is measured apart."""
    kept = files.sync_file, files.sync_folder
    files.sync_file = lambda fd: None
    files.sync_folder = lambda folder: None
    try:
        yield
    finally:
        files.sync_file, files.sync_folder = kept


def main() -> None:
    """Print the figures as JSON lines."""
    for part in ("daemon/hhd", "protocol/hhd_protocol"):
        compileall.compile_dir(ROOT / part, quiet=1)
    with tempfile.TemporaryDirectory(prefix="hhd-bench-") as name:
        folder = Path(name)
        for kind in ("CACHE", "DATA", "CONFIG"):
            os.environ[f"HHD_{kind}_HOME"] = str(folder / kind.lower())
        step_in_a_fresh_process(folder)
        help_and_completion()
        save_64_mib(folder, all_pages=False)
        save_64_mib(folder, all_pages=True)
        stop_16_mib(folder)
        long_past(folder)


def step_in_a_fresh_process(folder: Path) -> None:
    path = folder / "spin.hhd"
    capsules.new("spin", path, args={"iterations": "2000000000"}, embed=True, force=False)
    ours = process(HHD, "capsule", "step", str(path), "--slice-checks", "1000")
    theirs = process(sys.executable, "-c", "import wasmtime")
    measured = paired(ours, theirs, n=40, warmup=2)
    command = "hhd capsule step FILE --slice-checks 1000"
    report("capsule step / import wasmtime", command, "warm", target=1.7, **measured)


def help_and_completion() -> None:
    click = process(sys.executable, "-c", "import click")
    measured = paired(process(HHD, "--help"), click, n=25)
    report("hhd --help / import click", "hhd --help", "warm", target=1.5, **measured)
    environment = {**os.environ, "_HHD_COMPLETE": "bash_complete", "COMP_WORDS": "hhd ca", "COMP_CWORD": "1"}

    def complete() -> None:
        done = subprocess.run([HHD], env=environment, capture_output=True, text=True)
        assert "capsule" in done.stdout

    report("completion / import click", "hhd ca<TAB>", "warm", target=1.5, **paired(complete, click, n=25))


def save_64_mib(folder: Path, *, all_pages: bool) -> None:
    """Compare, pack and write a memory of 64 MiB with 1% of its pages changed, against one memcmp of it."""
    wasm = touching(64, 0.01, all_pages=all_pages)
    guest = Guest.start(Module.load(wasm), args=b"{}")
    guest.run(Slice(milliseconds=300))
    module = capsule.Module.of(wasm)
    path = folder / "large.hhd"
    pages = len(guest.snapshot().page_numbers)

    def save() -> None:
        value = Capsule(
            at=At.INTERRUPTED,
            program="module",
            module=module,
            args=b"{}",
            line=LineId(os.urandom(16)),
            execution=Execution.of(guest.snapshot()),
            checks=1,
        )
        files.replace(path, capsule.encode(value))

    size = guest.memory_bytes
    content = os.urandom(MIB) * (size // MIB)
    one, other = ctypes.create_string_buffer(content, size), ctypes.create_string_buffer(content, size)
    compare = ctypes.PyDLL(None).memcmp

    def memcmp() -> None:
        assert compare(one, other, ctypes.c_size_t(size)) == 0

    with without_sync():
        measured = paired(save, memcmp, n=60, warmup=3)
    extra = {"dirty_pages": pages, "memory_mib": size // MIB, "capsule_bytes": path.stat().st_size}
    others = "written to" if all_pages else "never touched"
    command = f"1% of pages changed, the others {others}, fsync apart"
    report("compare, pack, save 64 MiB / memcmp", command, "warm", target=2, **extra, **measured)


def stop_16_mib(folder: Path) -> None:
    """From a signal to a durable capsule of a busy loop with 16 MiB, half of a percent of it changed."""
    program, path = folder / "busy.wasm", folder / "busy.hhd"
    program.write_bytes(touching(16, 0.005))
    capsules.new(str(program), path, args={}, embed=True, force=False)
    block = folder / "block"
    took, unsynced, writes = [], [], []
    for _ in range(100):
        took.append(_stopped(path))
        with without_sync():
            unsynced.append(_stopped(path))
        writes.append(timed(lambda: files.replace(block, [bytes(4096)])))
    durable = percentile(writes, 0.99)
    for figure, times, target in (
        ("stop request to saved capsule", took, 15 + durable),
        ("stop request to saved capsule, fsync apart", unsynced, 15.0),
    ):
        report(
            figure,
            "SIGTERM, busy loop, 16 MiB",
            "warm",
            n=len(times),
            median_ms=round(statistics.median(times), 3),
            p99_ms=round(percentile(times, 0.99), 3),
            durable_4k_median_ms=round(statistics.median(writes), 3),
            durable_4k_p99_ms=round(durable, 3),
            target_p99_ms=round(target, 3),
        )


def _stopped(path: Path) -> float:
    """Milliseconds from a SIGTERM to this process until the capsule is saved."""
    stop, sent = StopFlag(), [0.0]
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def send() -> None:
        time.sleep(0.02)
        sent[0] = time.perf_counter()
        os.kill(os.getpid(), signal.SIGTERM)

    with CapsuleSession(path) as session:
        session.advance(Slice(checks=1), stop)  # Now it is loaded, and what follows is nothing but running.
        sender = threading.Thread(target=send)
        sender.start()
        session.advance(Slice(), stop)
        took = (time.perf_counter() - sent[0]) * 1000
        sender.join()
    signal.signal(signal.SIGTERM, before)
    return took


def long_past(folder: Path) -> None:
    """A step with 32 MiB said before, against one with nothing said."""
    short, long = folder / "short.hhd", folder / "long.hhd"
    capsules.new("spin", short, args={"iterations": "2000000000"}, embed=True, force=False)
    capsules.step(short, checks=10, stop=StopFlag())
    value, _ = capsule_file.read(short)
    said = b"".join(b"line %d of a long conversation, with some words in it\n" % number for number in range(600_000))
    capsule_file.write_new(
        long,
        Capsule(**{**vars(value), "transcript": value.transcript.append(said)}),
    )

    def step(path: Path) -> None:
        capsules.step(path, checks=1000, stop=StopFlag())

    with without_sync():
        measured = paired(lambda: step(long), lambda: step(short), n=40, warmup=2)
    report("step with 32 MiB said before / with nothing said", "in one process, fsync apart", "warm", **measured)
