"""Writes lineage.json beside it: signed statements of each kind; run by hand when the format changes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path

from hhd_protocol import lineage
from hhd_protocol.bodies import (
    AnyBody,
    CheckpointBody,
    CreateBody,
    IntentBody,
    Origin,
    ReceiptBody,
    ReleaseBody,
    TakeoverBody,
    TombstoneBody,
    covering,
)
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    FamilyId,
    Incarnation,
    ObjectName,
    SessionId,
    Sha256,
    TransferId,
)
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Progress

HERE = Path(__file__).parent
LAPTOP, DESKTOP = bytes(range(32)), bytes(range(32, 64))


def digest(text: str) -> bytes:
    """Return 32 bytes that stand for `text`."""
    return hashlib.sha256(text.encode()).digest()


class Chain:
    """One device's statements in one session, each after the one before."""

    def __init__(self, seed: bytes, session: SessionId | None, incarnation: int) -> None:
        self.seed, self.session = seed, session
        self.device: DeviceId = device_id(public_key(seed))
        self.incarnation = Incarnation(bytes([incarnation]) * 16)
        self.last: Signed | None = None

    def say(self, kind: type[AnyBody], **fields: object) -> Signed:
        """Sign the next statement."""
        seq = 0 if self.last is None else self.last.body.seq + 1
        body = kind(
            session=None if kind is CreateBody else self.session,
            by=self.device,
            after=None if self.last is None else self.last.id,
            seq=seq,
            incarnation=self.incarnation,
            at_ms=1_700_000_000_000 + seq,
            **fields,
        )
        self.last = lineage.sign(body, self.seed)
        self.session = self.last.session
        return self.last


def statements() -> dict[str, Signed]:
    """Return a small history: made on the laptop, released, taken back, removed; and a fork of it."""
    laptop = Chain(LAPTOP, None, 1)
    create = laptop.say(CreateBody, family=FamilyId(bytes(16)))
    session = create.session
    first = laptop.say(
        CheckpointBody,
        token=create.id,
        parents=(),
        payload=Sha256(digest("payload 1")),
        objects=(ObjectName(digest("object 1")), ObjectName(digest("object 2"))),
        effects={0: Progress.ASKED},
    )
    intent = laptop.say(IntentBody, token=create.id, position=0, op="bash", request=Sha256(digest("ls")))
    second = laptop.say(
        CheckpointBody,
        token=create.id,
        parents=(CheckpointId(first.id),),
        payload=Sha256(digest("payload 2")),
        objects=(),
        position=1,
        workspace=digest("capture"),
        effects={0: Progress.ANSWERED, 1: Progress.ASKED},
        turn=True,
    )
    desktop = Chain(DESKTOP, session, 2)
    release = laptop.say(
        ReleaseBody,
        to=desktop.device,
        prev=create.id,
        number=2,
        head=CheckpointId(second.id),
        transfer=TransferId(bytes(range(16))),
    )
    takeover = laptop.say(
        TakeoverBody, prev=release.id, number=3, head=CheckpointId(second.id), reason="the desktop never took it ⌛"
    )
    closing = desktop.say(
        CheckpointBody,
        token=release.id,
        parents=(CheckpointId(second.id),),
        payload=Sha256(digest("payload 3")),
        objects=(),
        position=1,
        effects={1: Progress.STARTED},
        journal={1: Progress.STARTED},
    )
    receipt = desktop.say(ReceiptBody, token=release.id, position=1, reply=Sha256(digest("done")))
    checkpoints = [CheckpointId(one.id) for one in (first, second, closing)]
    tombstone = laptop.say(
        TombstoneBody,
        record=takeover.id,
        number=3,
        heads=tuple(sorted(checkpoints[1:])),
        covers=covering(checkpoints),
    )
    fork = Chain(DESKTOP, None, 3).say(
        CreateBody,
        family=FamilyId(bytes(16)),
        origin=Origin(session=session, checkpoint=checkpoints[1], capsule=Sha256(digest("capsule"))),
        pending=(1,),
    )
    imported = Chain(DESKTOP, None, 4).say(
        CreateBody, family=FamilyId(bytes([9]) * 16), origin=Origin(capsule=Sha256(digest("capsule")))
    )
    return {
        "create": create,
        "first": first,
        "intent": intent,
        "second": second,
        "release": release,
        "takeover": takeover,
        "closing": closing,
        "receipt": receipt,
        "tombstone": tombstone,
        "fork": fork,
        "imported": imported,
    }


def shown(value: object) -> object:
    """Return a field as JSON."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {str(key): said.value for key, said in value.items()}
    if isinstance(value, Origin):
        return {field.name: shown(getattr(value, field.name)) for field in fields(value)}
    return value


def vectors() -> dict[str, object]:
    """Return what lineage.json holds."""
    made = statements()
    session = made["create"].session
    return {
        "devices": [
            {"seed": seed.hex(), "public": public_key(seed).hex(), "id": device_id(public_key(seed)).hex()}
            for seed in (LAPTOP, DESKTOP)
        ],
        "effects": [
            {"session": session.hex(), "position": at, "id": lineage.effect_id(session, at).hex()}
            for at in (0, 1, 256, 1_000_000)
        ],
        "statements": [
            {
                "name": name,
                "kind": type(one.body).__name__.removesuffix("Body").lower(),
                "fields": {field.name: shown(getattr(one.body, field.name)) for field in fields(one.body)},
                "message": one.message.hex(),
                "statement": one.raw.hex(),
                "id": one.id.hex(),
                "session": one.session.hex(),
            }
            for name, one in made.items()
        ],
    }


if __name__ == "__main__":
    (HERE / "lineage.json").write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n")
