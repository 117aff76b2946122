"""What a device says in a statement, before it is signed (`protocol/spec/lineage.md`).

A body speaks of effects by their position in the session's journal; only facts (`hhd_protocol.statements`) name them
by id. So a body cannot name an effect of another session, and the record that creates a fork, whose id does not exist
before it is written, can still say which effects were unanswered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    FamilyId,
    Incarnation,
    ObjectName,
    SessionId,
    Sha256,
    StatementId,
    TransferId,
)
from hhd_protocol.limits import TOMBSTONE_COVERS_MAX
from hhd_protocol.statements import Progress

COVER_BYTES = 8
"""Of a covered checkpoint's id: two ids of one session that share them by chance are not met in practice."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """What all bodies have.

    `session`: None in a create record, whose own id it is. `after`: the signer's previous statement in this session,
    None for its first. `seq`: its number in the signer's chain, for showing only. `incarnation`: the opening of the
    store that it was made in. `at_ms`: wall clock, for showing only.
    """

    session: SessionId | None
    by: DeviceId
    after: StatementId | None
    seq: int
    incarnation: Incarnation
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a fork began from: a checkpoint of another session, the content of a capsule file, or both."""

    session: SessionId | None = None
    checkpoint: CheckpointId | None = None
    capsule: Sha256 | None = None


@dataclass(frozen=True, kw_only=True)
class CreateBody(Body):
    """The first ownership record: the signer owns the session; for a fork, the signer is who imported it.

    `pending`: positions of effects that were unanswered where a fork began, ascending.
    """

    family: FamilyId
    origin: Origin | None = None
    pending: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReleaseBody(Body):
    """The holder hands the session to `to`, with the head it goes on from (None: no checkpoint yet)."""

    to: DeviceId
    prev: StatementId
    number: int
    head: CheckpointId | None
    transfer: TransferId | None = None


@dataclass(frozen=True, kw_only=True)
class TakeoverBody(Body):
    """The signer takes the session, going on from `head`, for a `reason` in a person's words."""

    prev: StatementId
    number: int
    head: CheckpointId | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class CheckpointBody(Body):
    """One node of the lineage, made under the token whose record is `token`.

    `payload`: root hash of the content. `objects`: outer hashes of the sealed objects that came with it. `position`:
    effects settled before it. `effects`: what changed since its parents, by position. `turn`: at the border of a turn.
    `journal`: None, or, in the one that a fenced holder writes under its old token, the progress of each effect that
    it still knows.
    """

    token: StatementId
    parents: tuple[CheckpointId, ...]
    payload: Sha256
    objects: tuple[ObjectName, ...]
    position: int = 0
    workspace: bytes | None = None
    effects: Mapping[int, Progress] = field(default_factory=dict)
    turn: bool = False
    journal: Mapping[int, Progress] | None = None


@dataclass(frozen=True, kw_only=True)
class IntentBody(Body):
    """The signer is about to run the effect at `position` under `token`."""

    token: StatementId
    position: int
    op: str
    request: Sha256


@dataclass(frozen=True, kw_only=True)
class ReceiptBody(Body):
    """The effect at `position`, begun under `token` by a holder since fenced, ended with a reply of this digest."""

    token: StatementId
    position: int
    reply: Sha256


@dataclass(frozen=True, kw_only=True)
class TombstoneBody(Body):
    """A person removed the session everywhere.

    `record`, `number`: the highest ownership record that was known. `heads`: the heads that were. `covers`: the first
    8 bytes of the id of each checkpoint that was known, ascending.
    """

    record: StatementId
    number: int
    heads: tuple[CheckpointId, ...]
    covers: tuple[bytes, ...]


RecordBody = CreateBody | ReleaseBody | TakeoverBody
AnyBody = RecordBody | CheckpointBody | IntentBody | ReceiptBody | TombstoneBody


def covering(checkpoints: Sequence[CheckpointId]) -> tuple[bytes, ...]:
    """Return the `covers` of a tombstone over `checkpoints`, oldest first; too many: without the oldest."""
    return tuple(sorted({one[:COVER_BYTES] for one in checkpoints[-TOMBSTONE_COVERS_MAX:]}))
