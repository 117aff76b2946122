"""How simulated devices sign: with a cheap hash, or really, through the wire encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Protocol

from hhd_protocol import bodies, crypto, lineage
from hhd_protocol.fencing import View
from hhd_protocol.holding import CheckpointDraft, Draft, IntentDraft, RecordDraft
from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    EffectId,
    FamilyId,
    Incarnation,
    SessionId,
    Sha256,
    StatementId,
)
from hhd_protocol.statements import (
    Checkpoint,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Revocation,
    Statement,
    Tombstone,
)

FAMILY = FamilyId(bytes(16))


class Signer(Protocol):
    """What a world needs to make statements of drafts."""

    def device(self, name: str) -> DeviceId: ...

    def create(self, by: DeviceId, incarnation: bytes) -> Record: ...

    def sign(self, draft: Draft, by: DeviceId, incarnation: bytes, at_ms: int) -> Statement: ...

    def revoke(
        self, device: DeviceId, last: StatementId | None, by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Revocation: ...

    def remove(
        self, view: View, covers: Sequence[StatementId], by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Tombstone: ...

    def effect(self, position: int) -> EffectId: ...


class CheapSigner:
    """Ids are hashes of what is said; signatures are taken as good."""

    def __init__(self) -> None:
        self._effects: dict[int, EffectId] = {}
        self._session = SessionId(StatementId(bytes(32)))

    def device(self, name: str) -> DeviceId:
        return DeviceId(sha256(name.encode()).digest())

    def create(self, by: DeviceId, incarnation: bytes) -> Record:
        id = self._id("create", by, incarnation)
        self._session = SessionId(id)
        return _create(id, by)

    def sign(self, draft: Draft, by: DeviceId, incarnation: bytes, at_ms: int) -> Statement:
        id = self._id(draft, by, incarnation, at_ms)
        if isinstance(draft, RecordDraft):
            return Record(
                id=id,
                by=by,
                after=draft.after,
                signature_good=True,
                kind=draft.kind,
                to=draft.to,
                prev=draft.prev,
                number=draft.number,
                head=draft.head,
            )
        if isinstance(draft, CheckpointDraft):
            return Checkpoint(
                id=id,
                by=by,
                after=draft.after,
                signature_good=True,
                token=draft.token,
                parents=draft.parents,
                effects=draft.effects,
                closing=draft.closing,
                journal=draft.journal,
            )
        if isinstance(draft, IntentDraft):
            return Intent(
                id=id,
                by=by,
                after=draft.after,
                signature_good=True,
                effect=draft.effect,
                token=draft.token,
                request=draft.request,
            )
        return Receipt(
            id=id,
            by=by,
            after=draft.after,
            signature_good=True,
            effect=draft.effect,
            token=draft.token,
            reply=draft.reply,
        )

    def revoke(
        self, device: DeviceId, last: StatementId | None, by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Revocation:
        id = self._id("revoke", device, last, by, after, incarnation)
        return Revocation(id=id, by=by, after=after, signature_good=True, device=device, last=last)

    def remove(
        self, view: View, covers: Sequence[StatementId], by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Tombstone:
        heads = tuple(sorted(view.heads))
        covered = frozenset(bodies.covering([CheckpointId(one) for one in covers]))
        id = self._id("remove", heads, sorted(covered), by, after, incarnation)
        return Tombstone(id=id, by=by, after=after, signature_good=True, heads=heads, covers=covered)

    def effect(self, position: int) -> EffectId:
        if position not in self._effects:
            self._effects[position] = lineage.effect_id(self._session, position)
        return self._effects[position]

    @staticmethod
    def _id(*said: object) -> StatementId:
        return StatementId(blake2b(repr(said).encode(), digest_size=32).digest())


class RealSigner:
    """Statements are signed with Ed25519, encoded, read back and verified, as they are between real devices."""

    def __init__(self) -> None:
        self._seeds: dict[DeviceId, bytes] = {}
        self._positions: dict[EffectId, int] = {}
        self._session = SessionId(StatementId(bytes(32)))
        self._seq: dict[StatementId | None, int] = {None: -1}

    def device(self, name: str) -> DeviceId:
        seed = sha256(b"seed of " + name.encode()).digest()
        device = crypto.device_id(crypto.public_key(seed))
        self._seeds[device] = seed
        return device

    def create(self, by: DeviceId, incarnation: bytes) -> Record:
        body = bodies.CreateBody(**self._head(by, None, incarnation, 0, create=True), family=FAMILY)
        fact = self._fact(body)
        assert isinstance(fact, Record)
        self._session = SessionId(fact.id)
        return fact

    def sign(self, draft: Draft, by: DeviceId, incarnation: bytes, at_ms: int) -> Statement:
        head = self._head(by, draft.after, incarnation, at_ms)
        body: bodies.AnyBody
        if isinstance(draft, RecordDraft):
            on = None if draft.head is None else CheckpointId(draft.head)
            if draft.kind is RecordKind.RELEASE:
                body = bodies.ReleaseBody(
                    **head, to=draft.to, prev=draft.prev, number=draft.number, head=on, transfer=draft.transfer
                )
            else:
                body = bodies.TakeoverBody(**head, prev=draft.prev, number=draft.number, head=on, reason=draft.reason)
        elif isinstance(draft, CheckpointDraft):
            body = bodies.CheckpointBody(
                **head,
                token=draft.token,
                parents=tuple(CheckpointId(parent) for parent in draft.parents),
                payload=Sha256(bytes(32)),
                objects=(),
                effects=self._by_position(draft.effects),
                journal=self._by_position(draft.journal) if draft.closing else None,
            )
        elif isinstance(draft, IntentDraft):
            position = self._positions[draft.effect]
            body = bodies.IntentBody(**head, token=draft.token, position=position, op="tool", request=draft.request)
        else:
            position = self._positions[draft.effect]
            body = bodies.ReceiptBody(**head, token=draft.token, position=position, reply=draft.reply)
        return self._fact(body)

    def revoke(
        self, device: DeviceId, last: StatementId | None, by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Revocation:
        # Revocations are records of the group, whose encoding is not part of a session's lineage.
        id = StatementId(sha256(repr((device, last, by, after, incarnation)).encode()).digest())
        self._seq[id] = self._seq[after] + 1
        return Revocation(id=id, by=by, after=after, signature_good=True, device=device, last=last)

    def remove(
        self, view: View, covers: Sequence[StatementId], by: DeviceId, after: StatementId | None, incarnation: bytes
    ) -> Tombstone:
        assert view.token is not None
        covered = [CheckpointId(one) for one in covers]
        body = bodies.TombstoneBody(
            **self._head(by, after, incarnation, 0),
            record=view.token.id,
            number=view.token.number,
            heads=tuple(CheckpointId(head) for head in sorted(view.heads)),
            covers=bodies.covering(covered),
        )
        fact = self._fact(body)
        assert isinstance(fact, Tombstone)
        return fact

    def effect(self, position: int) -> EffectId:
        effect = lineage.effect_id(self._session, position)
        self._positions[effect] = position
        return effect

    def _head(
        self, by: DeviceId, after: StatementId | None, incarnation: bytes, at_ms: int, *, create: bool = False
    ) -> dict[str, object]:
        return {
            "session": None if create else self._session,
            "by": by,
            "after": after,
            "seq": self._seq[after] + 1,
            "incarnation": Incarnation(incarnation),
            "at_ms": at_ms,
        }

    def _fact(self, body: bodies.AnyBody) -> Statement:
        seed = self._seeds[body.by]
        signed = lineage.sign(body, seed)
        again = lineage.decode(signed.raw)
        assert again == signed
        self._seq[signed.id] = body.seq
        return lineage.fact(again, lineage.verify(again, crypto.public_key(seed)))

    def _by_position(self, said: Mapping[EffectId, Progress]) -> dict[int, Progress]:
        return {self._positions[effect]: progress for effect, progress in said.items()}


def _create(id: StatementId, by: DeviceId) -> Record:
    return Record(
        id=id,
        by=by,
        after=None,
        signature_good=True,
        kind=RecordKind.CREATE,
        to=by,
        prev=None,
        number=1,
        head=None,
    )
