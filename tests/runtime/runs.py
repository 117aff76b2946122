"""Runs of guests for tests: whole, or cut into slices through a snapshot and a new guest each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from hhd.runtime.guest import Guest
from hhd.runtime.module import Module
from hhd.runtime.outcomes import Finished, Outcome, Slice, Waiting
from hhd_protocol.abi import EffectRequest, Snapshot

Answer = Callable[[EffectRequest], bytes]


def echo(effect: EffectRequest) -> bytes:
    """An effect host for tests: its answer depends on the request alone."""
    return effect.op.encode() + b":" + effect.request[::-1]


@dataclass
class Ended:
    """How a run ended: the last outcome, the transcript, the checks it took, the pauses on the way."""

    outcome: Outcome
    transcript: bytes
    checks: int
    pauses: int = 0
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    """Kept by position (`checks` at the pause), where asked for."""


def whole(module: Module, args: bytes = b"{}", answer: Answer = echo) -> Ended:
    """Run to the end in one guest, answering effects on the way."""
    guest = Guest.start(module, args=args)
    while isinstance(outcome := guest.run(Slice()), Waiting):
        guest.answer(answer(outcome.effect))
    return Ended(outcome, guest.take_transcript(), guest.checks)


def cut(
    module: Module, slices: Iterable[Slice], args: bytes = b"{}", answer: Answer = echo, keep: bool = False
) -> Ended:
    """Run by `slices`, then to the end; after each one everything is thrown away but the snapshot and the reply."""
    guest = Guest.start(module, args=args)
    transcript, checks, reply = b"", 0, b""
    kept: dict[int, Snapshot] = {}
    for pauses, each in enumerate(_then_for_ever(slices)):
        outcome = guest.run(each)
        transcript += guest.take_transcript()
        checks += guest.checks
        if not isinstance(outcome, Waiting) and guest.over:
            return Ended(outcome, transcript, checks, pauses, kept)
        waiting = isinstance(outcome, Waiting)
        if isinstance(outcome, Waiting):
            reply = answer(outcome.effect)
        snapshot = owned(guest.snapshot())
        if keep:
            kept[checks if not waiting else -checks] = snapshot
        guest = Guest.resume(module, snapshot, args=args, reply=reply, waiting=waiting)
    raise AssertionError


def owned(snapshot: Snapshot) -> Snapshot:
    """A copy that outlives its guest."""
    return replace(
        snapshot,
        page_numbers=tuple(snapshot.page_numbers),
        pages=(b"".join(snapshot.pages),),
        globals=dict(snapshot.globals),
    )


def assert_finished_alike(one: Ended, other: Ended) -> None:
    """Both ran to their ends, with one transcript and as many checks."""
    assert one.outcome == Finished() == other.outcome
    assert one.transcript == other.transcript
    assert one.checks == other.checks


def _then_for_ever(slices: Iterable[Slice]) -> Iterator[Slice]:
    yield from slices
    while True:
        yield Slice()
