"""Where a session stands, as a value: all of it but its memory and what it said, which grow large.

A *pause* is how a slice of a running program ended; a *step* is what one save makes durable: the standing after it,
with the pause that led there, if the program ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hhd_protocol.abi import EffectRequest, Snapshot
from hhd_protocol.errors import TooLargeError
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Journal, Settled
from hhd_protocol.paused import At, Capsule, Limits


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One paused session without its bulk; the fields are those of `hhd_protocol.paused.Capsule`.

    `module` and `module_bytes`: hash and length of the instrumented module.
    """

    at: At
    program: str
    module: Sha256
    module_bytes: int
    args: bytes
    journal: Journal
    limits: Limits
    transcript_bytes: int
    checks: int
    steps: int

    @staticmethod
    def of(capsule: Capsule) -> Standing:
        """Where `capsule` stands."""
        return Standing(
            at=capsule.at,
            program=capsule.program,
            module=capsule.module.digest,
            module_bytes=capsule.module.length,
            args=capsule.args,
            journal=capsule.journal,
            limits=capsule.limits,
            transcript_bytes=len(capsule.transcript),
            checks=capsule.checks,
            steps=capsule.steps,
        )


@dataclass(frozen=True, kw_only=True)
class Pause:
    """How a slice ended.

    `snapshot`: None where the program finished; its pages are views, good until the program runs on. `changed`: the
    numbers of its pages that may differ from the pause before, None if that is not known. `emitted` and `checks` are of
    this slice. `asked`: what the program now waits for, None if it waits for nothing; `asked_at` is where in memory the
    request lies.
    """

    at: At
    snapshot: Snapshot | None
    changed: Sequence[int] | None
    emitted: bytes
    checks: int
    asked: EffectRequest | None
    asked_at: int


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one save makes durable.

    `pause`: None where only the journal changed. `settled`: the effect before, which this step's asking settled.
    `rests`: the session may stand there for long.
    """

    standing: Standing
    pause: Pause | None = None
    settled: Settled | None = None
    rests: bool = False


def paused(before: Standing, pause: Pause) -> Step:
    """The step of `pause`; raises FormatError where a bound of the session is passed."""
    if before.transcript_bytes + len(pause.emitted) > before.limits.transcript_bytes:
        raise TooLargeError(f"the program said more than {before.limits.transcript_bytes} bytes")
    book, settled = before.journal, None
    if pause.asked is not None:
        if book.settled >= before.limits.effects:
            raise TooLargeError(f"the program asked for more than {before.limits.effects} effects")
        book, settled = book.ask(pause.asked.op, pause.asked.request)
    after = replace(
        before,
        at=pause.at,
        journal=book,
        transcript_bytes=before.transcript_bytes + len(pause.emitted),
        checks=before.checks + pause.checks,
        steps=before.steps + 1,
    )
    return Step(standing=after, pause=pause, settled=settled)
