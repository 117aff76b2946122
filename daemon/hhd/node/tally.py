"""What a session has asked for and spent so far, counted along its journal and its transcript.

The place in a script, and what model calls cost, follow from it; so it survives a move, and a guest cannot talk down
the calls. Tokens of calls are told by the transcript, which a guest writes (`hhd.effects.spend`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hhd.effects.spend import tokens_of_transcript
from hhd_protocol.journal import Journal, Settled, State, decode_history
from hhd_protocol.limits import STEP_OPS_MAX
from hhd_protocol.paused import Capsule

OTHER = "other"
"""Effects of a guest that invents ever more kinds of them."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """Effects of one kind: how many are over, and how often they were begun."""

    settled: int = 0
    starts: int = 0


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts of the settled effects by op, and the tokens that the transcript tells of."""

    counts: Mapping[str, Count] = field(default_factory=dict)
    tokens: int = 0

    def with_settled(self, record: Settled) -> Tally:
        """One more effect is over."""
        op = record.op if record.op in self.counts or len(self.counts) < STEP_OPS_MAX else OTHER
        before = self.counts.get(op, Count())
        now = Count(settled=before.settled + 1, starts=before.starts + record.starts)
        return replace(self, counts={**self.counts, op: now})

    def with_emitted(self, emitted: bytes) -> Tally:
        """The program said `emitted`, whole lines of it."""
        return replace(self, tokens=self.tokens + tokens_of_transcript(emitted.split(b"\n")))

    def answered(self, journal: Journal) -> dict[str, int]:
        """How many effects of each op have a reply, the live one of `journal` among them."""
        found = {op: count.settled for op, count in self.counts.items()}
        live = journal.live
        if live is not None and live.state is State.ANSWERED:
            found[live.op] = found.get(live.op, 0) + 1
        return found

    def starts(self, op: str, journal: Journal) -> int:
        """How often effects of `op` were begun, the live one of `journal` among them."""
        live = journal.live
        more = live.starts if live is not None and live.op == op else 0
        return self.counts.get(op, Count()).starts + more


def tally_of(capsule: Capsule) -> Tally:
    """Count along a whole capsule; raises FormatError where its history or transcript is damaged."""
    return _counted(decode_history(b"".join(capsule.history)), b"".join(capsule.transcript))


def _counted(history: Iterable[Settled], transcript: bytes) -> Tally:
    counts: dict[str, list[int]] = {}
    for record in history:
        count = counts.setdefault(record.op, [0, 0])
        count[0] += 1
        count[1] += record.starts
    by_op = {op: Count(settled=settled, starts=starts) for op, (settled, starts) in counts.items()}
    return Tally(counts=by_op, tokens=tokens_of_transcript(transcript.split(b"\n")))
