"""What each step of a session appends to its log `journal`: where the session stands then (`protocol/spec/session.md`).

A step costs what it adds. The request of the effect that a program waits for lies in its memory, which is stored
anyway, so the record says where, with its digest; a model call would otherwise repeat the whole conversation each
time. A reply is appended once and named by its place in the log from then on.

    log = part*     part = blob* record length     length = 4 bytes, of the record, most significant first

So the newest record is found from the end of the log, and each names the end of the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol import codec
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Approval, Settled, State, decode_settled, encode_settled
from hhd_protocol.limits import (
    ARGS_BYTES_MAX,
    CHECKS_MAX,
    EFFECT_BYTES_MAX,
    EFFECTS_MAX,
    MEMORY_BYTES_MAX,
    MODULE_BYTES_MAX,
    OP_BYTES_MAX,
    PROGRAM_BYTES_MAX,
    STEP_BYTES_MAX,
    STEP_LOG_BYTES_MAX,
    STEP_OPS_MAX,
    TRANSCRIPT_BYTES_MAX,
)
from hhd_protocol.paused import At, Limits

VERSION = 1
TRAILER_BYTES = 4
INLINE_BYTES = 64
"""A request no longer than this stands in the record itself: its place and digest would take as much."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A stretch of the log `journal`."""

    start: int
    length: int


@dataclass(frozen=True, kw_only=True)
class InMemory:
    """A stretch of the program's memory in the image of the same checkpoint; `digest`: SHA-256 of what is there."""

    address: int
    length: int
    digest: Sha256


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What stays the same for the life of a session: the first blob of its log."""

    program: str
    module: Sha256
    module_bytes: int
    args: bytes
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class Live:
    """The latest effect; the fields are those of `hhd_protocol.journal.Entry`, its bytes by where they are."""

    op: str
    request: bytes | InMemory | Place
    state: State
    starts: int
    reply: Place | None
    approval: Approval | None
    cancelled: bool


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """Where a session stands.

    `before`: where in the log the record before ends, None for the first. `settled`: effects that are over; `closed`:
    the one that this step settled, None if it did not. `counts`: effects that are over by op, and how often those were
    begun. `tokens`: as the transcript tells. `transcript_bytes`: how much of the log `transcript` belongs to it.
    """

    before: int | None
    opening: Place
    at: At
    checks: int
    steps: int
    settled: int
    live: Live | None
    closed: Settled | None
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    tokens: int = 0
    transcript_bytes: int = 0


def encode_opening(opening: Opening) -> bytes:
    """Return the blob of an opening."""
    limits = opening.limits
    return codec.encode(
        [
            VERSION,
            opening.program,
            opening.module,
            opening.module_bytes,
            opening.args,
            [limits.memory_bytes, limits.transcript_bytes, limits.effects],
        ]
    )


def decode_opening(raw: bytes) -> Opening:
    """Return the opening that `raw` encodes; raises FormatError, NewerVersionError."""
    match _versioned(codec.decode(raw, bytes_max=ARGS_BYTES_MAX + STEP_BYTES_MAX), "the opening of a session", 6):
        case [str(program), bytes(module), module_bytes, bytes(args), [memory, transcript, effects]]:
            if not program or len(program.encode()) > PROGRAM_BYTES_MAX or len(args) > ARGS_BYTES_MAX:
                raise FormatError("the opening of a session passes a bound")
            if len(module) != 32:
                raise FormatError("the opening of a session does not name its module by a hash")
            return Opening(
                program=program,
                module=Sha256(module),
                module_bytes=_count(module_bytes, MODULE_BYTES_MAX),
                args=args,
                limits=Limits(
                    memory_bytes=_count(memory, MEMORY_BYTES_MAX),
                    transcript_bytes=_count(transcript, TRANSCRIPT_BYTES_MAX),
                    effects=_count(effects, EFFECTS_MAX),
                ),
            )
    raise FormatError("the opening of a session has a field of the wrong kind")


def encode_step(record: StepRecord) -> bytes:
    """Return the end of a part: the record and its length."""
    live = record.live
    raw = codec.encode(
        [
            VERSION,
            record.before,
            _place_value(record.opening),
            int(record.at),
            record.checks,
            record.steps,
            record.settled,
            None if live is None else _live_value(live),
            None if record.closed is None else encode_settled(record.closed),
            {op: [settled, starts] for op, (settled, starts) in record.counts.items()},
            record.tokens,
            record.transcript_bytes,
        ]
    )
    if len(raw) > STEP_BYTES_MAX:
        raise TooLargeError(f"the record of a step of {len(raw)} bytes passes the bound of {STEP_BYTES_MAX}")
    return raw + len(raw).to_bytes(TRAILER_BYTES, "big")


def record_bytes(trailer: bytes) -> int:
    """Return the length of the record whose last four bytes are `trailer`; raises FormatError past the bound."""
    length = int.from_bytes(trailer, "big")
    if len(trailer) != TRAILER_BYTES or length > STEP_BYTES_MAX:
        raise FormatError("a log of steps does not end in a record")
    return length


def decode_step(raw: bytes) -> StepRecord:
    """Return the record that `raw`, without its length, encodes; raises FormatError, NewerVersionError."""
    fields = _versioned(codec.decode(raw, bytes_max=STEP_BYTES_MAX), "the record of a step", 12)
    before, opening, at, checks, steps, settled, live, closed, counts, tokens, transcript_bytes = fields
    if type(at) is not int or at not in set(At):
        raise FormatError("the record of a step does not say where the program stands")
    return StepRecord(
        before=None if before is None else _count(before, STEP_LOG_BYTES_MAX),
        opening=_place(opening),
        at=At(at),
        checks=_count(checks, CHECKS_MAX),
        steps=_count(steps, CHECKS_MAX),
        settled=_count(settled, EFFECTS_MAX),
        live=None if live is None else _live(live),
        closed=None if closed is None else decode_settled(_octets(closed)),
        counts=_counts(counts),
        tokens=_count(tokens, CHECKS_MAX),
        transcript_bytes=_count(transcript_bytes, TRANSCRIPT_BYTES_MAX),
    )


def _live_value(live: Live) -> codec.Value:
    request = live.request
    return [
        live.op,
        request if isinstance(request, bytes) else _where_value(request),
        int(live.state),
        live.starts,
        None if live.reply is None else _place_value(live.reply),
        None if live.approval is None else [live.approval.shown, live.approval.agreed],
        live.cancelled,
    ]


def _live(value: codec.Value) -> Live:
    match value:
        case [str(op), request, int(state), starts, reply, approval, bool(cancelled)] if len(op) <= OP_BYTES_MAX:
            if state not in set(State):
                raise FormatError("the effect in the record of a step has an unknown state")
            if (reply is not None) != (state == State.ANSWERED):
                raise FormatError("the effect in the record of a step has a reply too many, or none")
            return Live(
                op=op,
                request=_where(request),
                state=State(state),
                starts=_count(starts, EFFECTS_MAX),
                reply=None if reply is None else _place(reply, EFFECT_BYTES_MAX),
                approval=_approval(approval),
                cancelled=cancelled,
            )
    raise FormatError("the effect in the record of a step has a field of the wrong kind")


def _where_value(where: InMemory | Place) -> codec.Value:
    if isinstance(where, Place):
        return _place_value(where)
    return [where.address, where.length, where.digest]


def _where(value: codec.Value) -> bytes | InMemory | Place:
    match value:
        case bytes():
            if len(value) <= INLINE_BYTES:
                return value
        case [address, length, bytes(digest)] if len(digest) == 32:
            return InMemory(
                address=_count(address, MEMORY_BYTES_MAX),
                length=_count(length, EFFECT_BYTES_MAX),
                digest=Sha256(digest),
            )
        case [_, _]:
            return _place(value, EFFECT_BYTES_MAX)
    raise FormatError("the record of a step does not say where a request is")


def _place_value(place: Place) -> codec.Value:
    return [place.start, place.length]


def _place(value: codec.Value, length_max: int = ARGS_BYTES_MAX + STEP_BYTES_MAX) -> Place:
    match value:
        case [start, length]:
            return Place(start=_count(start, STEP_LOG_BYTES_MAX), length=_count(length, length_max))
    raise FormatError("the record of a step does not name a place in the log")


def _approval(value: codec.Value) -> Approval | None:
    match value:
        case None:
            return None
        case [bytes(shown), bool(agreed)] if len(shown) == 32:
            return Approval(shown=Sha256(shown), agreed=agreed)
    raise FormatError("an approval is a pair of a digest and a decision")


def _counts(value: codec.Value) -> dict[str, tuple[int, int]]:
    if not isinstance(value, dict) or len(value) > STEP_OPS_MAX:
        raise FormatError("the counts of effects are no map within its bound")
    found: dict[str, tuple[int, int]] = {}
    for op, pair in value.items():
        match pair:
            case [settled, starts] if isinstance(op, str) and len(op) <= OP_BYTES_MAX:
                found[op] = _count(settled, EFFECTS_MAX), _count(starts, CHECKS_MAX)
            case _:
                raise FormatError("the counts of effects are not by name")
    return found


def _versioned(value: codec.Value, what: str, width: int) -> list[codec.Value]:
    if not isinstance(value, list) or not value or type(value[0]) is not int:
        raise FormatError(f"{what} is not a list that begins with its version")
    if value[0] > VERSION:
        raise NewerVersionError(f"{what} is of a newer version than this program knows")
    if value[0] != VERSION or len(value) != width:
        raise FormatError(f"{what} has the wrong number of fields")
    return value[1:]


def _count(value: codec.Value, largest: int) -> int:
    if type(value) is not int or not 0 <= value <= largest:
        raise FormatError(f"a number in the log of steps is not from 0 to {largest}")
    return value


def _octets(value: codec.Value) -> bytes:
    if not isinstance(value, bytes):
        raise FormatError("a settled effect in the log of steps is not bytes")
    return value
