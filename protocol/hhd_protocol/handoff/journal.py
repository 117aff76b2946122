"""The journal of a handoff: a record for each stage that this device came to, and what a restart makes of them.

Each record is whole: what is known of the handoff once it is durable. So the last one says how things stand; those
before it only show that the way there is one that the table allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.handoff.messages import ID_BYTES, TRANSFER_BYTES
from hhd_protocol.handoff.stages import Side, Stage, follows
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId
from hhd_protocol.limits import (
    HANDOFF_DEADLINE_MS_MAX,
    HANDOFF_RECORDS_MAX,
    HANDOFF_TEXT_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    STATEMENT_COUNT_MAX,
)

VERSION = 1
RECORD_BYTES_MAX = STATEMENT_BYTES_MAX + 2 * HANDOFF_TEXT_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class Record:
    """One stage of one handoff, as this device came to it.

    `peer`: the other device. `token`: that the session had when it was offered, None at a target that was not offered
    it. `head`: the checkpoint that is handed on, from READY on. `release`: the signed release, from RELEASED or TAKEN
    on. `denied`: the release had been taken before this store was rolled back; nothing is done under it. `why`: how it
    ended, in a sentence. `cancel_running`: an effect that runs is cancelled instead of waited for. `deadline_ms`: how
    long it may take until it is released, counted anew after a restart. `at_ms`: wall clock, for showing only.
    """

    side: Side
    stage: Stage
    transfer: TransferId
    session: SessionId
    peer: DeviceId
    token: StatementId | None = None
    head: CheckpointId | None = None
    release: bytes | None = None
    denied: bool = False
    why: str = ""
    cancel_running: bool = False
    deadline_ms: int = 0
    at_ms: int = 0


def encode_record(record: Record) -> bytes:
    """Return the one encoding of `record`; raises FormatError where a bound is passed."""
    fields: list[Value] = [
        VERSION,
        record.side.value,
        record.stage.value,
        record.transfer,
        record.session,
        record.peer,
        record.token,
        record.head,
        record.release,
        record.denied,
        record.why,
        record.cancel_running,
        record.deadline_ms,
        record.at_ms,
    ]
    raw = encode(fields)
    if decode_record(raw) != record:
        raise FormatError("a record of a handoff does not come back as it was")
    return raw


def decode_record(raw: bytes) -> Record:
    """Return the record that `raw` encodes; raises FormatError (TooLargeError, NewerVersionError)."""
    match decode(raw, bytes_max=RECORD_BYTES_MAX):
        case [int(version), *_] if type(version) is int and version > VERSION:
            raise NewerVersionError(f"a record of a handoff of version {version}; this hhd knows {VERSION}")
        case [
            1,
            str(side),
            str(stage),
            bytes(transfer),
            bytes(session),
            bytes(peer),
            token,
            head,
            release,
            bool(denied),
            str(why),
            bool(cancel),
            int(deadline),
            int(at),
        ]:
            return Record(
                side=_side(side),
                stage=_stage(stage),
                transfer=TransferId(_of(transfer, TRANSFER_BYTES)),
                session=SessionId(StatementId(_of(session, ID_BYTES))),
                peer=DeviceId(_of(peer, ID_BYTES)),
                token=None if token is None else StatementId(_of(token, ID_BYTES)),
                head=None if head is None else CheckpointId(StatementId(_of(head, ID_BYTES))),
                release=None if release is None else _at_most(release, STATEMENT_BYTES_MAX),
                denied=denied,
                why=_text(why),
                cancel_running=cancel,
                deadline_ms=_count(deadline, HANDOFF_DEADLINE_MS_MAX),
                at_ms=_count(at, STATEMENT_COUNT_MAX),
            )
    raise FormatError("this is no record of a handoff")


def recover(records: Sequence[Record]) -> Record | None:
    """Return how the handoff stands whose journal is `records`, None before the first.

    Raises FormatError where they are not of one handoff, or follow in an order that the table does not allow.
    """
    if len(records) > HANDOFF_RECORDS_MAX:
        raise TooLargeError(f"a journal of a handoff with {len(records)} records")
    before = Stage.NONE
    for record in records:
        if (record.side, record.transfer, record.session, record.peer) != (
            records[0].side,
            records[0].transfer,
            records[0].session,
            records[0].peer,
        ):
            raise FormatError("the journal of a handoff holds records of another")
        if not follows(record.side, before, record.stage):
            raise FormatError(f"in the journal of a handoff {record.stage.value} follows upon {before.value}")
        before = record.stage
    return records[-1] if records else None


def _side(text: str) -> Side:
    try:
        return Side(text)
    except ValueError as error:
        raise FormatError("a record of a handoff is of neither side") from error


def _stage(text: str) -> Stage:
    try:
        return Stage(text)
    except ValueError as error:
        raise FormatError("a record of a handoff is of no stage") from error


def _of(value: Value, length: int) -> bytes:
    if not isinstance(value, bytes) or len(value) != length:
        raise FormatError("an id in a record of a handoff is none")
    return value


def _at_most(value: Value, length: int) -> bytes:
    if not isinstance(value, bytes) or len(value) > length:
        raise FormatError("the release in a record of a handoff is none")
    return value


def _text(text: str) -> str:
    if len(text.encode()) > HANDOFF_TEXT_BYTES_MAX:
        raise TooLargeError("the sentence in a record of a handoff passes its bound")
    return text


def _count(value: int, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise FormatError("a number in a record of a handoff passes its bound")
    return value
