"""Runs steps for a test, in this process, whatever processor it is: `python -m tests.arm64.steps FILE`.

FILE holds a pickled list of jobs, made by the test itself; the answers go to FILE.out.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

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


def do(job: Job) -> Done:
    """Run one step."""
    module = Module.load(job.wasm)
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

    file = Path(sys.argv[1])
    file.with_suffix(".out").write_bytes(pickle.dumps([steps.do(job) for job in pickle.loads(file.read_bytes())]))
