"""Checkpoints as this store keeps them: what a session was at one moment, and what its content needs.

The record that lineage signs is opaque here; beside it stands what retention and `hhd check` need to know without
understanding it. All of it is one sealed row, found by id; a session lists its ids in the order they came.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd.store.errors import DamagedStoreError
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, EpochId, ObjectName, SessionId, Sha256
from hhd_protocol.objects import Ref

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Payload:
    """The content of a checkpoint: a memory image, record logs by name, or both; the module that the image is of."""

    image: Ref | None = None
    logs: Mapping[str, Ref] = field(default_factory=dict)
    module: Sha256 | None = None

    def root(self) -> Sha256:
        """Return the hash that a signed record names the whole content by."""
        return Sha256(hashlib.sha256(encode(self.value())).digest())

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
        return CheckpointId(hashlib.sha256(self.record or encode(self._fields()[:-2])).digest())

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


def decode_checkpoint(raw: bytes) -> Checkpoint:
    """Return the checkpoint of a row; raises DamagedStoreError."""
    try:
        fields = decode(raw)
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
                session=SessionId(session),
                parents=tuple(CheckpointId(one) for one in parents if isinstance(one, bytes)),
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
