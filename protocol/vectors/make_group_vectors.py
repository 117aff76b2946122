"""Writes group.json and pairing.json beside it; run by hand when a format changes."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.group import Add, Allow, AnyBody, Found, GroupRecord, Join, Revoke, resolve, sign
from hhd_protocol.group.eras import epoch_of
from hhd_protocol.ids import DeviceId, FamilyId, GroupRecordId, SessionId, StatementId
from hhd_protocol.pairing import Card, Machine, Side, codes
from hhd_protocol.pairing.machine import Answered, Ask, Introduced, Joined, Received, Send
from hhd_protocol.statements import Role

HERE = Path(__file__).parent
LAPTOP, DESKTOP, PHONE = (bytes(range(at, at + 32)) for at in (0, 32, 64))
NOW = 1_700_000_000_000


def digest(text: str) -> bytes:
    """Return 32 bytes that stand for `text`."""
    return sha256(text.encode()).digest()


def _device(seed: bytes) -> DeviceId:
    return device_id(public_key(seed))


def group() -> dict[str, Any]:
    """One record of each kind, and what all of them mean."""
    session = SessionId(StatementId(digest("session")))
    records: dict[str, GroupRecord] = {}

    def put(name: str, body: AnyBody, seed: bytes) -> GroupRecordId:
        records[name] = sign(body, seed)
        return records[name].id

    former = put("former", Found(public=public_key(LAPTOP), name="old", at_ms=NOW), LAPTOP)
    root = put(
        "found", Found(public=public_key(LAPTOP), seen=(former,), name="laptop", former=former, at_ms=NOW + 1), LAPTOP
    )
    laptop = {"public": public_key(LAPTOP), "under": root}
    desktop = put(
        "add",
        Add(**laptop, seen=(root,), at_ms=NOW + 2, member=public_key(DESKTOP), name="desktop", role=Role.FULL),
        LAPTOP,
    )
    joined = put("join", Join(public=public_key(DESKTOP), under=desktop, seen=(desktop,), at_ms=NOW + 3), DESKTOP)
    phone = put(
        "add a controller",
        Add(**laptop, seen=(joined,), at_ms=NOW + 4, member=public_key(PHONE), name="phone ☎", role=Role.CONTROLLER),
        LAPTOP,
    )
    allowed = put("allow", Allow(**laptop, seen=(phone,), at_ms=NOW + 5, membership=phone, approve=True), LAPTOP)
    cutoffs = {session: (StatementId(digest("last")),)}
    put(
        "revoke",
        Revoke(
            **laptop,
            seen=(allowed,),
            at_ms=NOW + 6,
            device=_device(DESKTOP),
            memberships=(desktop,),
            cutoffs=cutoffs,
        ),
        LAPTOP,
    )
    found = resolve(records.values(), root=root)
    assert found.era is not None
    return {
        "records": {name: {"raw": one.raw.hex(), "id": one.id.hex()} for name, one in records.items()},
        "root": root.hex(),
        "members": {one.id.hex(): one.live.role.value for one in found.members.values() if one.live is not None},
        "approvals": [[giver.hex(), to.hex()] for giver, to in sorted(found.approvals)],
        "cut-offs": {session.hex(): [last.hex() for one in found.revocations(session) if (last := one.last)]},
        "ends": [one.hex() for one in found.ends],
        "era": found.era.hex(),
        "epoch": epoch_of(found.era, _device(LAPTOP), FamilyId(bytes(16))).hex(),
    }


class Given:
    """A key exchange whose halves and key are given: what is said with it can be computed by anybody."""

    def __init__(self, half: bytes) -> None:
        self._half = half

    def start(self) -> bytes:
        """The half that is given."""
        return self._half

    def finish(self, message: bytes) -> bytes:
        """The key that is given."""
        return digest("key")


def pairing() -> dict[str, Any]:
    """One pairing of the laptop, which shows the code, with the desktop: everything that is said."""
    root = GroupRecordId(digest("root"))
    cards = {
        Side.SHOWER: Card(
            public=public_key(LAPTOP), name="laptop", root=root, others=1, full=True, sessions=True, role=Role.FULL
        ),
        Side.GUESSER: Card(
            public=public_key(DESKTOP),
            name="desktop",
            root=None,
            others=0,
            full=False,
            sessions=False,
            role=Role.FULL,
        ),
    }
    ends = {
        side: Machine(
            side=side,
            card=card,
            other=cards[side.other].device,
            pake=Given((b"A" if side is Side.GUESSER else b"B") + digest(f"half {side.value}")),
            nonce=digest(f"nonce {side.value}"),
            now_ms=0,
        )
        for side, card in cards.items()
    }
    said: list[list[str]] = []
    words: set[tuple[str, ...]] = set()

    def carry(side: Side, outputs: list[Any]) -> None:
        for one in outputs:
            if isinstance(one, Send):
                said.append([side.value, one.raw.hex()])
                carry(side.other, ends[side.other].handle(Received(raw=one.raw), 0))
            elif isinstance(one, Ask):
                words.add(one.words)

    carry(Side.GUESSER, ends[Side.GUESSER].begin())
    for side in Side:
        carry(side, ends[side].handle(Answered(yes=True), 0))
    carry(Side.SHOWER, ends[Side.SHOWER].handle(Introduced(root=root, records=(b"one", b"two")), 0))
    carry(Side.GUESSER, ends[Side.GUESSER].handle(Joined(root=root, records=(b"one", b"two", b"three")), 0))
    (shown,) = words
    drawn = [bytes([n]) * 16 for n in (0, 1, 127, 255)]
    return {
        "key": digest("key").hex(),
        "devices": {side.value: card.device.hex() for side, card in cards.items()},
        "said": said,
        "words": list(shown),
        "codes": {one.hex(): codes.shown(codes.code_of(one)) for one in drawn},
    }


if __name__ == "__main__":
    for name, made in (("group", group()), ("pairing", pairing())):
        (HERE / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
