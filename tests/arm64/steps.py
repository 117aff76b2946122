"""Runs steps for a test, in this process, whatever processor it is: `python -m tests.arm64.steps FILE`.

FILE holds a pickled list of jobs, made by the test itself; the answers go to FILE.out. A module is loaded once, and
compiled in this process: to start another one takes seconds on an emulated processor, and that the compiler is one of
its own there, too, is tried by the capsules that go there.
"""

from __future__ import annotations

import ctypes
import functools
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

from hhd.runtime import compiled
from hhd.runtime import wasmtime_c as c
from hhd.runtime.engine import engine
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Outcome, Slice
from hhd_protocol.abi import Snapshot


@dataclass(frozen=True)
class Job:
    """One step: where it begins (None: at the start), what it is told, how far it goes."""

    wasm: bytes
    args: bytes
    snapshot: Snapshot | None
    reply: bytes
    waiting: bool
    checks: int


@dataclass(frozen=True)
class Done:
    """What became of it; `snapshot` is None if the program ended."""

    outcome: Outcome
    snapshot: Snapshot | None
    transcript: bytes
    checks: int


@functools.cache
def _loaded(wasm: bytes) -> Module:
    return Module.load(wasm)


def _compiled_here(wasm: bytes) -> bytes:
    module, vec = ctypes.c_void_p(), c.Vec()
    c.check(c.lib.wasmtime_module_new(engine(), wasm, len(wasm), module))
    c.check(c.lib.wasmtime_module_serialize(module, vec))
    return bytes((ctypes.c_char * vec.size).from_address(vec.address or 0))


def do(job: Job) -> Done:
    """Run one step."""
    module = _loaded(job.wasm)
    if job.snapshot is None:
        guest = Guest.start(module, args=job.args)
    else:
        guest = Guest.resume(module, job.snapshot, args=job.args, reply=job.reply, waiting=job.waiting)
    outcome = guest.run(Slice(checks=job.checks))
    from tests.runtime.runs import owned

    snapshot = None if guest.over else owned(guest.snapshot())
    return Done(outcome, snapshot, guest.take_transcript(), guest.checks)


if __name__ == "__main__":
    from tests.arm64 import steps  # so that what is pickled has the module's name, not __main__

    compiled._compile_apart = _compiled_here
    file = Path(sys.argv[1])
    file.with_suffix(".out").write_bytes(pickle.dumps([steps.do(job) for job in pickle.loads(file.read_bytes())]))
