"""Snapshots and modules with random damage: whatever they do, it is one of the named ends, and never to the host."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.runtime import programs, wat
from tests.runtime.conftest import Load
from tests.runtime.runs import owned

from hhd.base.errors import RefusedError
from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Failed, Finished, Interrupted, Limits, Slice, Waiting
from hhd_protocol.abi import Snapshot
from hhd_protocol.limits import PAGE_BYTES

LIMITS = Limits(stuck_seconds=5, memory_bytes=64 << 20, transcript_bytes=1 << 20)

pytestmark = pytest.mark.long


def damaged(snapshot: Snapshot, module: Module, rng: random.Random) -> Snapshot:
    """Bytes changed, most of them in the frames of the pause; now and then a global or the length of the frames."""
    raw, first = bytearray(snapshot.pages[0]), module.shape.memory_bytes // PAGE_BYTES
    for _ in range(rng.choice((1, 3, 30, 500))):
        at = rng.randrange(len(raw))
        if rng.random() < 0.6 and first in snapshot.page_numbers:
            frames = min(snapshot.asyncify_stack_bytes, PAGE_BYTES - 16)
            at = snapshot.page_numbers.index(first) * PAGE_BYTES + 16 + rng.randrange(frames)
        raw[at] = rng.choice((0, 255, 1, rng.randrange(256), raw[at] ^ (1 << rng.randrange(8))))
    values = dict(snapshot.globals)
    if rng.random() < 0.3:
        values[rng.choice(list(values))] = rng.choice((0, 0xFFFFFFFF, 0x80000000, rng.randrange(1 << 32)))
    used = snapshot.asyncify_stack_bytes if rng.random() < 0.7 else rng.randrange(262_128)
    return replace(snapshot, pages=(bytes(raw),), globals=values, asyncify_stack_bytes=used)


def test_damaged_snapshots_do_no_harm(load: Load) -> None:
    rng, seen = random.Random(4), Counter[type]()
    for _ in range(400):
        name = rng.choice([*programs.NAMES, "agent"])
        module, args = load(programs.instrumented(name)), programs.ARGS.get(name, b"{}")
        guest = Guest.start(module, args=args)
        outcome = guest.run(Slice(checks=rng.randrange(1, 3000)))
        if guest.over:
            continue
        waiting = isinstance(outcome, Waiting) == (rng.random() < 0.8)
        snapshot = damaged(owned(guest.snapshot()), module, rng)
        guest = Guest.resume(module, snapshot, args=args, reply=b'{"a":1}', waiting=waiting, limits=LIMITS)
        outcome = guest.run(Slice(checks=rng.randrange(1, 20_000), milliseconds=300))
        assert not (isinstance(outcome, Failed) and outcome.stuck)
        if not guest.over:
            guest.snapshot()
        seen[type(outcome)] += 1
    assert seen.keys() == {Failed, Finished, Interrupted, Waiting}


def test_damaged_modules_do_no_harm(load: Load) -> None:
    rng, seen = random.Random(8), Counter[type]()
    whole = [*(programs.instrumented(name) for name in programs.PROGRAMS), wat.module()]
    for _ in range(60):
        raw = bytearray(rng.choice(whole))
        for _ in range(rng.choice((1, 1, 2))):
            raw[rng.randrange(8, len(raw))] ^= 1 << rng.randrange(8)
        try:
            guest = Guest.start(load(bytes(raw)), args=b"{}", limits=LIMITS)
            outcome = guest.run(Slice(checks=rng.randrange(1, 2000), milliseconds=300))
        except RefusedError:
            seen[RefusedError] += 1
            continue
        assert not (isinstance(outcome, Failed) and outcome.stuck)
        seen[type(outcome)] += 1
    assert seen[RefusedError] > 20 and len(seen) >= 3
