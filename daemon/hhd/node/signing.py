"""What this device says in one session, signed and written down: each statement follows its last one there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from hhd.identity.key import Identity
from hhd.node.doors import Doors
from hhd.store.checkpoints import Checkpoint
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import IntentBody, ReceiptBody, ReleaseBody, TakeoverBody
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId, Sha256, StatementId, TransferId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Progress


class Chain(TypedDict):
    """What every statement of a chain begins with (`hhd_protocol.bodies.Body`)."""

    session: SessionId
    by: DeviceId
    after: StatementId | None
    seq: int
    incarnation: Incarnation
    at_ms: int


class Pen:
    """Signs as `me` in `session`, within the transaction of what is signed; `doors` hear of each statement."""

    def __init__(self, store: Store, me: Identity, session: SessionId, doors: Doors) -> None:
        self._store, self._me, self._session, self._doors = store, me, session, doors

    def checkpoint(
        self,
        bare: Checkpoint,
        *,
        token: StatementId,
        effects: Mapping[int, Progress],
        journal: Mapping[int, Progress] | None = None,
    ) -> Signed:
        """Sign a checkpoint; the store writes it with its content, and then `written` is called."""
        body = bare.body(
            by=self._me.id,
            after=self._doors.part.after,
            seq=self._doors.seq,
            incarnation=Incarnation(self._store.incarnation),
            token=token,
            effects=effects,
            journal=journal,
        )
        return lineage.sign(body, self._me.seed)

    def written(self, signed: Signed) -> None:
        """A statement is in the store now."""
        self._doors.signed(signed)

    def intent(self, *, token: StatementId, position: int, op: str, request: Sha256) -> None:
        """Say that the effect at `position` is about to be run."""
        self._add(
            lineage.sign(
                IntentBody(**self._chain(), token=token, position=position, op=op, request=request), self._me.seed
            )
        )

    def release(
        self, *, to: DeviceId, prev: StatementId, number: int, head: CheckpointId, transfer: TransferId
    ) -> Signed:
        """Hand the session on to `to`, to go on from `head`."""
        body = ReleaseBody(**self._chain(), to=to, prev=prev, number=number, head=head, transfer=transfer)
        signed = lineage.sign(body, self._me.seed)
        self._add(signed)
        return signed

    def takeover(self, *, prev: StatementId, number: int, head: CheckpointId, reason: str) -> None:
        """Take the session, to go on from `head`."""
        body = TakeoverBody(**self._chain(), prev=prev, number=number, head=head, reason=reason)
        self._add(lineage.sign(body, self._me.seed))

    def receipt(self, *, token: StatementId, position: int, reply: Sha256) -> None:
        """Say that the effect at `position`, begun under a token that is beaten now, was answered."""
        self._add(
            lineage.sign(ReceiptBody(**self._chain(), token=token, position=position, reply=reply), self._me.seed)
        )

    def _add(self, signed: Signed) -> None:
        self._store.statements.add(self._session, signed.raw)
        self._doors.signed(signed)

    def _chain(self) -> Chain:
        return {
            "session": self._session,
            "by": self._me.id,
            "after": self._doors.part.after,
            "seq": self._doors.seq,
            "incarnation": Incarnation(self._store.incarnation),
            "at_ms": self._store.now_ms(),
        }
