"""Checkpoints as this store keeps them: what a session was at one moment, and what its content needs.

The signed record says the same as what stands beside it, except where the content is (`payload` holds references, the
record their root hash) and that it was thinned. All of it is one sealed row, found by id; a session lists its ids in
the order they came.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hhd.store.errors import DamagedStoreError
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.codec import Value, decode, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, EpochId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.lineage import decode as decode_statement
from hhd_protocol.objects import Ref
from hhd_protocol.statements import Progress

VERSION = 1
PAYLOAD_BYTES_MAX = 64 * 1024
"""A payload from elsewhere: a session has three logs, each some 100 bytes."""


@dataclass(frozen=True, kw_only=True)
class Payload:
    """The content of a checkpoint: a memory image, record logs by name, or both; the module that the image is of."""

    image: Ref | None = None
    logs: Mapping[str, Ref] = field(default_factory=dict)
    module: Sha256 | None = None

    def root(self) -> Sha256:
        """Return the hash that a signed record names the whole content by."""
        return Sha256(hashlib.sha256(encode(self.value())).digest())

    def refs(self) -> list[Ref]:
        """Return the objects that it names."""
        return [*([self.image] if self.image else []), *self.logs.values()]

    def encoded(self) -> bytes:
        """Return it as it is hashed, and goes to other devices."""
        return encode(self.value())

    def value(self) -> Value:
        """Return the payload as a value for encoding."""
        named: dict[Value, Value] = {name: _ref_value(ref) for name, ref in self.logs.items()}
        return [_ref_value(self.image), named, self.module]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One checkpoint.

    `objects`: names of the objects that came with it. `journal`: position in the effect journal. `workspace`:
    reference to a capture, None if there is none. `at_ms`: wall clock, for showing and for retention only.
    `turn`: made at the border of a turn. `record`: the signed bytes of lineage, empty until there is lineage.
    `thinned`: its content is gone.
    """

    session: SessionId
    parents: tuple[CheckpointId, ...]
    payload: Payload
    objects: tuple[ObjectName, ...]
    journal: int = 0
    workspace: bytes | None = None
    at_ms: int = 0
    turn: bool = False
    record: bytes = b""
    thinned: bool = False

    @functools.cached_property
    def id(self) -> CheckpointId:
        """Its id: the hash of its record, or of what stands here while it has none."""
        return CheckpointId(StatementId(hashlib.sha256(self.record or encode(self._fields()[:-2])).digest()))

    def body(
        self,
        *,
        by: DeviceId,
        after: StatementId | None,
        seq: int,
        incarnation: Incarnation,
        token: StatementId,
        effects: Mapping[int, Progress] | None = None,
        journal: Mapping[int, Progress] | None = None,
    ) -> CheckpointBody:
        """Return what is to be signed as its record (`lineage.md`)."""
        return CheckpointBody(
            session=self.session,
            by=by,
            after=after,
            seq=seq,
            incarnation=incarnation,
            at_ms=self.at_ms,
            token=token,
            parents=self.parents,
            payload=self.payload.root(),
            objects=self.objects,
            position=self.journal,
            workspace=self.workspace,
            effects=effects or {},
            turn=self.turn,
            journal=journal,
        )

    def signed(self) -> Signed | None:
        """Return its record, None if it has none.

        Raises FormatError if that is no statement, or does not say what stands beside it.
        """
        if not self.record:
            return None
        signed = decode_statement(self.record)
        body = signed.body
        if not isinstance(body, CheckpointBody):
            raise FormatError("the record of a checkpoint is a statement of another kind")
        pairs = {
            "session": (body.session, self.session),
            "parents": (body.parents, self.parents),
            "content": (body.payload, self.payload.root()),
            "objects": (body.objects, self.objects),
            "position in the journal": (body.position, self.journal),
            "workspace": (body.workspace, self.workspace),
            "border of a turn": (body.turn, self.turn),
            "time": (body.at_ms, self.at_ms),
        }
        for what, (said, here) in pairs.items():
            if said != here:
                raise FormatError(f"the record of a checkpoint says another {what} than stands beside it")
        return signed

    def encoded(self) -> bytes:
        """Return the value of its row."""
        return encode(self._fields())

    def _fields(self) -> list[Value]:
        return [
            VERSION,
            self.session,
            list(self.parents),
            self.payload.value(),
            b"".join(self.objects),
            self.journal,
            self.workspace,
            self.at_ms,
            self.turn,
            self.record,
            self.thinned,
        ]


Sign = Callable[[Checkpoint], bytes]
"""Makes the signed record of a checkpoint that has none yet."""


def record_of(raw: bytes) -> bytes:
    """Return the signed record in the row of a checkpoint, and leave the rest of it; raises DamagedStoreError."""
    try:
        fields = decode_own(raw)
    except FormatError as error:
        raise DamagedStoreError(f"A checkpoint is not in the form it was written in: {error}.") from error
    if type(fields) is not list or len(fields) != 11 or type(fields[9]) is not bytes:
        raise DamagedStoreError("A checkpoint is not in the form it was written in.")
    return fields[9]


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Return the checkpoint of a row; raises DamagedStoreError."""
    try:
        fields = decode_own(raw)
    except FormatError as error:
        raise DamagedStoreError(f"A checkpoint is not in the form it was written in: {error}.") from error
    match fields:
        case [
            1,
            bytes(session),
            list(parents),
            payload,
            bytes(names),
            int(journal),
            workspace,
            int(at),
            turn,
            bytes(record),
            thinned,
        ]:
            return Checkpoint(
                session=SessionId(StatementId(session)),
                parents=tuple(CheckpointId(StatementId(one)) for one in parents if isinstance(one, bytes)),
                payload=_payload(payload),
                objects=tuple(ObjectName(names[i : i + 32]) for i in range(0, len(names), 32)),
                journal=journal,
                workspace=workspace if isinstance(workspace, bytes) else None,
                at_ms=at,
                turn=bool(turn),
                record=record,
                thinned=bool(thinned),
            )
    raise DamagedStoreError("A checkpoint is not in the form it was written in.")


def _ref_value(ref: Ref | None) -> Value:
    return None if ref is None else [ref.name, ref.epoch]


def _ref(value: Value) -> Ref | None:
    match value:
        case [bytes(name), bytes(epoch)]:
            return Ref(name=ObjectName(name), epoch=EpochId(epoch))
    return None


def _payload(value: Value) -> Payload:
    match value:
        case [image, dict(named), module]:
            logs = {str(name): ref for name, one in named.items() if (ref := _ref(one)) is not None}
            return Payload(image=_ref(image), logs=logs, module=Sha256(module) if isinstance(module, bytes) else None)
    raise DamagedStoreError("The payload of a checkpoint is not in the form it was written in.")


def decode_payload(raw: bytes) -> Payload:
    """Return the payload that a peer's bytes encode; raises FormatError, DamagedStoreError for another form."""
    value = decode(raw, bytes_max=PAYLOAD_BYTES_MAX)
    payload = _payload(value)
    if encode(payload.value()) != raw or any(len(one) != 32 for ref in payload.refs() for one in ref):
        raise FormatError("what the content of a checkpoint is, is not in its form")
    return payload


def capture_ref(workspace: bytes | None) -> Ref | None:
    """Return the capture that a checkpoint names, None if it names none."""
    if workspace is None or len(workspace) != 64:
        return None
    return Ref(name=ObjectName(workspace[:32]), epoch=EpochId(workspace[32:]))


def refs_of(checkpoint: Checkpoint) -> list[Ref]:
    """Return the objects that a checkpoint's content begins at: image, logs, capture."""
    payload, capture = checkpoint.payload, capture_ref(checkpoint.workspace)
    return [*([payload.image] if payload.image else []), *payload.logs.values(), *([capture] if capture else [])]
