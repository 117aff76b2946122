"""The effect journal: what a guest asked of the world, whether it was begun, and what came back.

A guest has at most one effect at a time, so a journal is one *live* entry and a count of *settled* ones. The
live entry keeps request and reply as bytes: the request until somebody has run it, the reply until the guest can no
longer read it (the ABI keeps the latest reply readable until the next effect). Asking the next effect settles the one
before: it shrinks to a `Settled` record of digests, which the owner of the journal appends to its history. So a
journal costs the same after one effect and after ten thousand.

Whoever runs effects makes each step durable before it acts on it: `started` is on disk before the first
outward act, `answered` before the guest hears of the reply. An entry that is found `started` when a journal is opened
was therefore interrupted: it may or may not have happened. `Event.DOUBT` says so; only a kind declared
repeatable, or a person, may `START` it again. Nothing here reads a clock or knows what an op means.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from hhd_protocol import codec
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import Sha256
from hhd_protocol.limits import EFFECT_BYTES_MAX, EFFECTS_MAX, JOURNAL_BYTES_MAX, OP_BYTES_MAX

_OP_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")


class State(enum.IntEnum):
    """Where an effect is; each survives a restart."""

    ASKED = 1
    STARTED = 2
    ANSWERED = 3
    UNCERTAIN = 4


class Event(enum.Enum):
    """What may happen to the live entry."""

    START = "start"
    """It is about to be run; this is on disk before anything is done."""
    ANSWER = "answer"
    """There is a reply: it ran, it was refused by policy, or a person gave the reply."""
    DOUBT = "doubt"
    """It was found started, without an answer, by somebody who did not start it."""
    WITHDRAW = "withdraw"
    """It is proven that nothing was done (it could not even be launched): as if never started."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.ASKED, Event.START): State.STARTED,
    (State.ASKED, Event.ANSWER): State.ANSWERED,
    (State.STARTED, Event.ANSWER): State.ANSWERED,
    (State.STARTED, Event.DOUBT): State.UNCERTAIN,
    (State.STARTED, Event.WITHDRAW): State.ASKED,
    (State.UNCERTAIN, Event.START): State.STARTED,
    (State.UNCERTAIN, Event.ANSWER): State.ANSWERED,
}
"""Every permitted step; anything else is a bug of the caller."""


@dataclass(frozen=True, kw_only=True)
class Approval:
    """What a person decided: `shown` is the SHA-256 of the very text (UTF-8) they saw when they did."""

    shown: Sha256
    agreed: bool


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One effect with its bytes.

    `index` counts from 0 and, with the session, is its identity. `starts`: how often it was begun. `reply`: None until
    answered. `approval`: None while nobody was asked. `cancelled`: a person wants it stopped; the reply says how it
    ended.
    """

    index: int
    op: str
    request: bytes
    state: State = State.ASKED
    starts: int = 0
    reply: bytes | None = None
    approval: Approval | None = None
    cancelled: bool = False

    @property
    def waiting(self) -> bool:
        """Whether the guest still waits for a reply."""
        return self.state is not State.ANSWERED


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What is kept of an effect that is over: enough to recognise the same, or another, request at its position."""

    index: int
    op: str
    request: Sha256
    request_bytes: int
    reply: Sha256
    reply_bytes: int
    starts: int
    approval: Approval | None
    cancelled: bool


@dataclass(frozen=True, kw_only=True)
class Journal:
    """`settled` effects are over and in the history; `live` is the latest one, None before the first."""

    settled: int = 0
    live: Entry | None = None

    @property
    def pending(self) -> Entry | None:
        """The effect the guest waits for, None if it waits for none."""
        return self.live if self.live is not None and self.live.waiting else None

    @property
    def latest_reply(self) -> bytes:
        """What the guest may still read: the reply of the latest answered effect, empty before there is one."""
        return self.live.reply or b"" if self.live is not None else b""

    def ask(self, op: str, request: bytes) -> tuple[Journal, Settled | None]:
        """Return the journal in which the guest asked for `op`, and the record of the effect before, now settled.

        The caller appends that record to its history in the same durable step.
        """
        assert self.pending is None, "a guest asks for one effect at a time"
        before = None if self.live is None else settle(self.live)
        count = self.settled + (before is not None)
        entry = Entry(index=count, op=op, request=request)
        _check(entry)
        return Journal(settled=count, live=entry), before

    def start(self) -> Journal:
        """The live effect is about to be run (again)."""
        assert self.live is not None
        return self._after(Event.START, replace(self.live, starts=self.live.starts + 1))

    def answer(self, reply: bytes) -> Journal:
        """The live effect has this reply."""
        assert self.live is not None
        if len(reply) > EFFECT_BYTES_MAX:
            raise FormatError(f"a reply of {len(reply)} bytes passes the bound of {EFFECT_BYTES_MAX}")
        return self._after(Event.ANSWER, replace(self.live, reply=reply))

    def doubt(self) -> Journal:
        """The live effect was found started without an answer."""
        return self._after(Event.DOUBT, self.live)

    def withdraw(self) -> Journal:
        """It is proven that the live effect, though marked started, did nothing."""
        assert self.live is not None
        return self._after(Event.WITHDRAW, replace(self.live, starts=self.live.starts - 1))

    def approve(self, approval: Approval) -> Journal:
        """A person was shown the live effect and decided."""
        assert self.pending is not None
        return replace(self, live=replace(self.pending, approval=approval))

    def cancel(self) -> Journal:
        """A person wants the live effect stopped."""
        assert self.pending is not None
        return replace(self, live=replace(self.pending, cancelled=True))

    def _after(self, event: Event, entry: Entry | None) -> Journal:
        assert entry is not None, "there is no effect"
        state = TRANSITIONS.get((entry.state, event))
        assert state is not None, f"an effect that is {entry.state.name} cannot {event.value}"
        return replace(self, live=replace(entry, state=state))


def settle(entry: Entry) -> Settled:
    """Return what is kept of an answered `entry`."""
    assert entry.reply is not None, "only an answered effect can be settled"
    return Settled(
        index=entry.index,
        op=entry.op,
        request=Sha256(sha256(entry.request).digest()),
        request_bytes=len(entry.request),
        reply=Sha256(sha256(entry.reply).digest()),
        reply_bytes=len(entry.reply),
        starts=entry.starts,
        approval=entry.approval,
        cancelled=entry.cancelled,
    )


def encode(journal: Journal) -> bytes:
    """Return the canonical encoding of `journal` (`protocol/spec/journal.md`)."""
    return codec.encode({0: journal.settled, 1: None if journal.live is None else _entry_value(journal.live)})


def decode(raw: bytes) -> Journal:
    """Return the journal that `raw` encodes; raises FormatError for anything `encode` would not have written."""
    value = _map(codec.decode(raw, bytes_max=JOURNAL_BYTES_MAX), {0, 1}, "a journal")
    settled = _count(value[0], "the number of settled effects", EFFECTS_MAX)
    live = None if value[1] is None else _entry(value[1])
    if live is None and settled:
        raise FormatError("the journal counts settled effects but lacks the latest one")
    if live is not None and live.index != settled:
        raise FormatError(f"the journal has effect {live.index} where effect {settled} belongs")
    return Journal(settled=settled, live=live)


def encode_settled(record: Settled) -> bytes:
    """Return the canonical encoding of one history record."""
    return codec.encode(
        {
            0: record.index,
            1: record.op,
            2: record.request,
            3: record.request_bytes,
            4: record.reply,
            5: record.reply_bytes,
            6: record.starts,
            7: _approval_value(record.approval),
            8: record.cancelled,
        }
    )


def decode_settled(raw: bytes) -> Settled:
    """Return the history record that `raw` encodes."""
    value = _map(codec.decode(raw, bytes_max=4096), set(range(9)), "a settled effect")
    return Settled(
        index=_count(value[0], "an effect's index", EFFECTS_MAX),
        op=_op(value[1]),
        request=_digest(value[2]),
        request_bytes=_count(value[3], "a request's length", EFFECT_BYTES_MAX),
        reply=_digest(value[4]),
        reply_bytes=_count(value[5], "a reply's length", EFFECT_BYTES_MAX),
        starts=_count(value[6], "an effect's number of starts", EFFECTS_MAX),
        approval=_approval(value[7]),
        cancelled=_bool(value[8]),
    )


def decode_history(raw: bytes) -> Iterator[Settled]:
    """The history records in `raw`, end to end, numbered from 0; raises FormatError for anything else."""
    for index, record in enumerate(codec.sequence(raw)):
        settled = decode_settled(record)
        if settled.index != index:
            raise FormatError(f"the history has effect {settled.index} where effect {index} belongs")
        yield settled


def _entry_value(entry: Entry) -> codec.Value:
    return {
        0: entry.index,
        1: entry.op,
        2: entry.request,
        3: int(entry.state),
        4: entry.starts,
        5: entry.reply,
        6: _approval_value(entry.approval),
        7: entry.cancelled,
    }


def _entry(value: codec.Value) -> Entry:
    fields = _map(value, set(range(8)), "an effect")
    code = _count(fields[3], "an effect's state", 255)
    if code not in set(State):
        raise FormatError(f"an effect has the unknown state {code}")
    entry = Entry(
        index=_count(fields[0], "an effect's index", EFFECTS_MAX),
        op=_op(fields[1]),
        request=_bytes(fields[2]),
        state=State(code),
        starts=_count(fields[4], "an effect's number of starts", EFFECTS_MAX),
        reply=None if fields[5] is None else _bytes(fields[5]),
        approval=_approval(fields[6]),
        cancelled=_bool(fields[7]),
    )
    _check(entry)
    return entry


def _check(entry: Entry) -> None:
    """Raise FormatError where the fields of `entry` contradict each other or pass a bound."""
    _op(entry.op)
    if entry.index > EFFECTS_MAX:
        raise FormatError(f"a session has at most {EFFECTS_MAX} effects")
    if len(entry.request) > EFFECT_BYTES_MAX:
        raise FormatError(f"a request of {len(entry.request)} bytes passes the bound of {EFFECT_BYTES_MAX}")
    if entry.reply is not None and len(entry.reply) > EFFECT_BYTES_MAX:
        raise FormatError(f"a reply of {len(entry.reply)} bytes passes the bound of {EFFECT_BYTES_MAX}")
    if (entry.reply is not None) != (entry.state is State.ANSWERED):
        raise FormatError("an effect is answered without a reply, or has a reply without being answered")
    if entry.state in (State.STARTED, State.UNCERTAIN) and not entry.starts:
        raise FormatError("an effect is under way without ever having been started")


def _approval_value(approval: Approval | None) -> codec.Value:
    return None if approval is None else [approval.shown, approval.agreed]


def _approval(value: codec.Value) -> Approval | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise FormatError("an approval is a pair of a digest and a decision")
    return Approval(shown=_digest(value[0]), agreed=_bool(value[1]))


def _map(value: codec.Value, keys: set[int], what: str) -> dict[int, codec.Value]:
    if not isinstance(value, dict) or set(value) != keys:
        raise FormatError(f"{what} lacks a field or has one that is not known")
    return value  # type: ignore[return-value]


def _count(value: codec.Value, what: str, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise FormatError(f"{what} is not a number from 0 to {largest}")
    return value


def _op(value: codec.Value) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= OP_BYTES_MAX or not _OP_LETTERS.issuperset(value):
        raise FormatError(f"an effect's name is not 1 to {OP_BYTES_MAX} of the characters a-z 0-9 _ . -")
    return value


def _bytes(value: codec.Value) -> bytes:
    if not isinstance(value, bytes):
        raise FormatError("a request or reply is not a byte string")
    return value


def _digest(value: codec.Value) -> Sha256:
    if not isinstance(value, bytes) or len(value) != 32:
        raise FormatError("a digest is not 32 bytes")
    return Sha256(value)


def _bool(value: codec.Value) -> bool:
    if not isinstance(value, bool):
        raise FormatError("a flag is neither true nor false")
    return value
