"""Turns a step of a session into what its log is appended by: bytes that are new, and the record that names them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from hhd.node.standing import Step
from hhd.node.step_log import read_memory
from hhd.node.tally import Count, Tally
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Entry
from hhd_protocol.paused import At
from hhd_protocol.steps import INLINE_BYTES, InMemory, Live, Place, StepRecord, encode_step


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The newest record of a log of `size` bytes, and what it counts."""

    record: StepRecord
    size: int

    @property
    def tally(self) -> Tally:
        """What the session has asked and spent."""
        counts = {op: Count(settled=settled, starts=starts) for op, (settled, starts) in self.record.counts.items()}
        return Tally(counts=counts, tokens=self.record.tokens)

    def after(self, step: Step) -> tuple[bytes, Recorded]:
        """Return what `step` appends, and what is newest then."""
        appended = _Appended(self.size)
        standing, pause, tally = step.standing, step.pause, self.tally
        if step.settled is not None:
            tally = tally.with_settled(step.settled)
        if pause is not None:
            tally = tally.with_emitted(pause.emitted)
        live = standing.journal.live
        before = self.record.live if self.record.settled == standing.journal.settled else None
        record = StepRecord(
            before=self.size,
            opening=self.record.opening,
            at=standing.at,
            checks=standing.checks,
            steps=standing.steps,
            settled=standing.journal.settled,
            live=None if live is None else appended.live(live, before, step),
            closed=step.settled,
            counts={op: (count.settled, count.starts) for op, count in tally.counts.items()},
            tokens=tally.tokens,
            transcript_bytes=standing.transcript_bytes,
        )
        raw = appended.joined() + encode_step(record)
        return raw, Recorded(record=record, size=self.size + len(raw))


class _Appended:
    """The blobs that come before a record."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._blobs: list[bytes] = []

    def joined(self) -> bytes:
        return b"".join(self._blobs)

    def live(self, live: Entry, before: Live | None, step: Step) -> Live:
        reply = None if before is None else before.reply
        if live.reply is None:
            reply = None
        elif reply is None:
            reply = self._put(live.reply)
        return Live(
            op=live.op,
            request=self._request(live, before, step),
            state=live.state,
            starts=live.starts,
            reply=reply,
            approval=live.approval,
            cancelled=live.cancelled,
        )

    def _request(self, live: Entry, before: Live | None, step: Step) -> bytes | InMemory | Place:
        """Where the request is: as before while that holds, in the memory that waits with it, or in the log."""
        known = None if before is None else before.request
        if known is not None and not isinstance(known, InMemory):
            return known
        if len(live.request) <= INLINE_BYTES:
            return live.request
        if known is not None and step.pause is None:
            return known  # The program did not run, so its memory is the same.
        place = _found(step, live.request) if step.standing.at is At.EFFECT else None
        return self._put(live.request) if place is None else place

    def _put(self, blob: bytes) -> Place:
        start = self._start + sum(map(len, self._blobs))
        self._blobs.append(blob)
        return Place(start=start, length=len(blob))


def _found(step: Step, request: bytes) -> InMemory | None:
    """Where a request stands in memory; None if a guest gave it from a place that is not in the snapshot as it was."""
    snapshot, address = (None, 0) if step.pause is None else (step.pause.snapshot, step.pause.asked_at)
    if snapshot is None or read_memory(snapshot, address, len(request)) != request:
        return None
    return InMemory(address=address, length=len(request), digest=Sha256(sha256(request).digest()))


def first(opening: bytes, at: At) -> tuple[bytes, Recorded]:
    """Return the first part of a log, of a session that has not begun, and what is newest then."""
    record = StepRecord(
        before=None,
        opening=Place(start=0, length=len(opening)),
        at=at,
        checks=0,
        steps=0,
        settled=0,
        live=None,
        closed=None,
    )
    raw = opening + encode_step(record)
    return raw, Recorded(record=record, size=len(raw))
