"""The one encoding of what a device says in a statement (`protocol/spec/lineage.md`); read with every bound checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TypedDict, cast

from hhd_protocol.bodies import (
    COVER_BYTES,
    AnyBody,
    Body,
    CheckpointBody,
    CreateBody,
    IntentBody,
    Origin,
    ReceiptBody,
    ReleaseBody,
    TakeoverBody,
    TombstoneBody,
)
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    FamilyId,
    Incarnation,
    SessionId,
    Sha256,
    StatementId,
    TransferId,
)
from hhd_protocol.limits import (
    EFFECTS_MAX,
    OP_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    STATEMENT_COUNT_MAX,
    STATEMENT_EFFECTS_MAX,
    STATEMENT_OBJECTS_MAX,
    STATEMENT_PARENTS_MAX,
    STATEMENT_REASON_BYTES_MAX,
    STATEMENT_WORKSPACE_BYTES_MAX,
    TOMBSTONE_COVERS_MAX,
    TOMBSTONE_HEADS_MAX,
)
from hhd_protocol.statements import Progress

VERSION = 1
ID_BYTES = 32
PROGRESS = (Progress.ASKED, Progress.STARTED, Progress.ANSWERED, Progress.SETTLED, Progress.RERUN)
"""The number of each is its place here."""
_NUMBER = {progress: number for number, progress in enumerate(PROGRESS)}


def encode_body(body: AnyBody) -> bytes:
    """Return the one encoding of `body`; raises FormatError if a text in it is not Unicode."""
    head: list[Value] = [
        VERSION,
        _KINDS[type(body)],
        body.session,
        body.by,
        body.after,
        body.seq,
        body.incarnation,
        body.at_ms,
    ]
    try:
        return encode(head + _fields(body))
    except UnicodeEncodeError as error:
        raise FormatError("a text in a statement holds half a character") from error


def _fields(body: AnyBody) -> list[Value]:
    match body:
        case CreateBody():
            origin = body.origin
            said: Value = None if origin is None else [origin.session, origin.checkpoint, origin.capsule]
            return [body.family, said, list(body.pending)]
        case ReleaseBody():
            return [body.to, body.prev, body.number, body.head, body.transfer]
        case TakeoverBody():
            return [body.prev, body.number, body.head, body.reason]
        case CheckpointBody():
            return [
                body.token,
                b"".join(body.parents),
                body.payload,
                b"".join(body.objects),
                body.position,
                body.workspace,
                _progress_value(body.effects),
                body.turn,
                None if body.journal is None else _progress_value(body.journal),
            ]
        case IntentBody():
            return [body.token, body.position, body.op, body.request]
        case ReceiptBody():
            return [body.token, body.position, body.reply]
        case TombstoneBody():
            return [body.record, body.number, b"".join(body.heads), b"".join(body.covers)]


def decode_body(raw: bytes) -> AnyBody:
    """Return the body that `raw` encodes; raises FormatError, NewerVersionError."""
    fields = decode(raw, bytes_max=STATEMENT_BYTES_MAX)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise FormatError("a statement is not a list that begins with its version")
    if fields[0] > VERSION:
        raise NewerVersionError("a statement is of a newer version than this program knows")
    if fields[0] != VERSION or len(fields) < _HEAD_FIELDS or not isinstance(fields[1], str):
        raise FormatError("a statement does not begin as one")
    _, kind, session, by, after, seq, incarnation, at_ms = fields[:_HEAD_FIELDS]
    if kind not in _DECODERS:
        raise FormatError("a statement is of no known kind")
    if (session is None) is not (kind == "create"):
        raise FormatError("only the record that creates a session does not name it")
    head: _Head = {
        "session": None if session is None else SessionId(_id(session)),
        "by": DeviceId(_id(by)),
        "after": None if after is None else _id(after),
        "seq": _count(seq),
        "incarnation": Incarnation(_bytes(incarnation, 16)),
        "at_ms": _count(at_ms),
    }
    width, decoder = _DECODERS[kind]
    rest = fields[_HEAD_FIELDS:]
    if len(rest) != width:
        raise FormatError(f"a statement of kind {kind} has not the fields of its kind")
    return decoder(head, rest)


class _Head(TypedDict):
    session: SessionId | None
    by: DeviceId
    after: StatementId | None
    seq: int
    incarnation: Incarnation
    at_ms: int


_HEAD_FIELDS = 8


def _create(head: _Head, fields: list[Value]) -> AnyBody:
    family, origin, pending = fields
    if not isinstance(pending, list) or len(pending) > STATEMENT_EFFECTS_MAX:
        raise FormatError("the unanswered effects of a fork are not a list within its bound")
    positions = tuple(_position(one) for one in pending)
    if list(positions) != sorted(set(positions)):
        raise FormatError("the unanswered effects of a fork do not ascend")
    if positions and origin is None:
        raise FormatError("a session that is no fork has unanswered effects")
    if head["after"] is not None or head["seq"] != 0:
        raise FormatError("a record that creates a session is not its signer's first statement there")
    return CreateBody(**head, family=FamilyId(_bytes(family, 16)), origin=_origin(origin), pending=positions)


def _origin(value: Value) -> Origin | None:
    match value:
        case None:
            return None
        case [None, None, capsule]:
            return Origin(capsule=Sha256(_bytes(capsule, ID_BYTES)))
        case [session, checkpoint, capsule]:
            return Origin(
                session=SessionId(_id(session)),
                checkpoint=CheckpointId(_id(checkpoint)),
                capsule=None if capsule is None else Sha256(_bytes(capsule, ID_BYTES)),
            )
    raise FormatError("the origin of a fork is not one")


def _release(head: _Head, fields: list[Value]) -> AnyBody:
    to, prev, number, on, transfer = fields
    return ReleaseBody(
        **head,
        to=DeviceId(_id(to)),
        prev=_id(prev),
        number=_count(number),
        head=_checkpoint_or_none(on),
        transfer=None if transfer is None else TransferId(_bytes(transfer, 16)),
    )


def _takeover(head: _Head, fields: list[Value]) -> AnyBody:
    prev, number, on, reason = fields
    if not isinstance(reason, str) or len(reason.encode()) > STATEMENT_REASON_BYTES_MAX:
        raise FormatError("the reason of a takeover is no text within its bound")
    return TakeoverBody(**head, prev=_id(prev), number=_count(number), head=_checkpoint_or_none(on), reason=reason)


def _checkpoint(head: _Head, fields: list[Value]) -> AnyBody:
    token, parents, payload, objects, position, workspace, effects, turn, journal = fields
    if workspace is not None and not (
        isinstance(workspace, bytes) and 0 < len(workspace) <= STATEMENT_WORKSPACE_BYTES_MAX
    ):
        raise FormatError("the workspace of a checkpoint is no name within its bound")
    if not isinstance(turn, bool):
        raise FormatError("whether a checkpoint is at the border of a turn is not said")
    named = _joined(parents, ID_BYTES, STATEMENT_PARENTS_MAX)
    if len(named) > 1 and len(set(named)) != len(named):
        raise FormatError("a checkpoint names a parent twice")
    # The constructor of a frozen dataclass sets each field by a call, which is a seventh of reading a checkpoint.
    made = object.__new__(CheckpointBody)
    made.__dict__.update(
        head,
        token=_id(token),
        parents=named,
        payload=_id(payload),
        objects=_joined(objects, ID_BYTES, STATEMENT_OBJECTS_MAX),
        position=_position(position),
        workspace=workspace,
        effects=_progress(effects),
        turn=turn,
        journal=None if journal is None else _progress(journal),
    )
    return made


def _intent(head: _Head, fields: list[Value]) -> AnyBody:
    token, position, op, request = fields
    if not isinstance(op, str) or not 0 < len(op.encode()) <= OP_BYTES_MAX:
        raise FormatError("the name of an effect is no text within its bound")
    digest = Sha256(_bytes(request, ID_BYTES))
    return IntentBody(**head, token=_id(token), position=_position(position), op=op, request=digest)


def _receipt(head: _Head, fields: list[Value]) -> AnyBody:
    token, position, reply = fields
    digest = Sha256(_bytes(reply, ID_BYTES))
    return ReceiptBody(**head, token=_id(token), position=_position(position), reply=digest)


def _tombstone(head: _Head, fields: list[Value]) -> AnyBody:
    record, number, heads, covers = fields
    named = _joined(heads, ID_BYTES, TOMBSTONE_HEADS_MAX)
    covered = _joined(covers, COVER_BYTES, TOMBSTONE_COVERS_MAX)
    if any(one >= other for pair in (named, covered) for one, other in itertools.pairwise(pair)):
        raise FormatError("what a tombstone names does not ascend")
    return TombstoneBody(
        **head,
        record=_id(record),
        number=_count(number),
        heads=cast("tuple[CheckpointId, ...]", named),
        covers=covered,
    )


_DECODERS: dict[str, tuple[int, Callable[[_Head, list[Value]], AnyBody]]] = {
    "create": (3, _create),
    "release": (5, _release),
    "takeover": (4, _takeover),
    "checkpoint": (9, _checkpoint),
    "intent": (4, _intent),
    "receipt": (3, _receipt),
    "tombstone": (4, _tombstone),
}
"""By kind: how many fields follow the head, and what reads them."""

_KINDS: dict[type[Body], str] = {
    CreateBody: "create",
    ReleaseBody: "release",
    TakeoverBody: "takeover",
    CheckpointBody: "checkpoint",
    IntentBody: "intent",
    ReceiptBody: "receipt",
    TombstoneBody: "tombstone",
}


def _bytes(value: Value, length: int) -> bytes:
    if isinstance(value, bytes) and len(value) == length:
        return value
    raise FormatError(f"a field of a statement is not {length} bytes")


def _id(value: Value) -> StatementId:
    if isinstance(value, bytes) and len(value) == ID_BYTES:
        return StatementId(value)
    raise FormatError("a field of a statement is no id")


def _checkpoint_or_none(value: Value) -> CheckpointId | None:
    return None if value is None else CheckpointId(_id(value))


def _count(value: Value) -> int:
    if type(value) is int and 0 <= value <= STATEMENT_COUNT_MAX:
        return value
    raise FormatError("a number of a statement is outside its bounds")


def _position(value: Value) -> int:
    if type(value) is int and 0 <= value <= EFFECTS_MAX:
        return value
    raise FormatError("a position in the journal is outside its bounds")


def _joined(value: Value, width: int, count_max: int) -> tuple[bytes, ...]:
    if value == b"":
        return ()
    if not isinstance(value, bytes) or len(value) % width:
        raise FormatError("the names in a statement are not whole")
    if len(value) > width * count_max:
        raise FormatError(f"a statement names more than {count_max} at once")
    return (value,) if len(value) == width else tuple([value[at : at + width] for at in range(0, len(value), width)])


def _progress_value(progress: Mapping[int, Progress]) -> Value:
    return {position: _NUMBER[said] for position, said in progress.items()}


def _progress(value: Value) -> dict[int, Progress]:
    if not isinstance(value, dict) or len(value) > STATEMENT_EFFECTS_MAX:
        raise FormatError("what a statement says of effects is no map within its bound")
    if not value:
        return {}
    said: dict[int, Progress] = {}
    for position, number in value.items():
        if type(number) is not int or not 0 <= number < len(PROGRESS):
            raise FormatError("the progress of an effect is none of those there are")
        said[_position(position)] = PROGRESS[number]
    return said
