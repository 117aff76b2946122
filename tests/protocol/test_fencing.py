"""Who may advance a session: handed cases, shuffled."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hhd_protocol.fencing import View, resolve
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Revocation,
    Role,
    Tombstone,
)

FOLDER = Path(__file__).parents[1] / "fixtures" / "fencing"
CASES: list[dict[str, Any]] = [
    case for path in sorted(FOLDER.glob("*.json")) for case in json.loads(path.read_text())["cases"]
]

NOTHING_REMOVED = {"removed": False, "beyond_removal": []}
"""What a case expects that does not say: there is no tombstone in it."""


def _sid(text: str) -> StatementId:
    return StatementId(text.encode())


def _maybe(text: str | None) -> StatementId | None:
    return None if text is None else _sid(text)


def _common(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": _sid(said["id"]),
        "by": DeviceId(said["by"].encode()),
        "after": _maybe(said["after"]),
        "signature_good": said["sig"] == "ok",
    }


def _of_effect(said: dict[str, Any]) -> dict[str, Any]:
    return {"effect": EffectId(said["effect"].encode()), "token": _sid(said["token"])}


def _named(intents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Intents with an id and a place in their signer's chain; the handed cases leave both out."""
    return [
        {"id": f"intent {number}", "after": f"before intent {number}", "sig": "ok", **said}
        for number, said in enumerate(intents)
    ]


def _progress(said: dict[str, str]) -> dict[EffectId, Progress]:
    return {EffectId(effect.encode()): Progress(word) for effect, word in said.items()}


def view_of(case: dict[str, Any], rng: random.Random) -> View:
    """Resolve a case with its lists shuffled and some items repeated."""

    def set_of(items: list[Any]) -> list[Any]:
        mixed = items + rng.choices(items, k=2) if items else []
        rng.shuffle(mixed)
        return mixed

    return resolve(
        session=_sid(case["session"]),
        members={DeviceId(d["id"].encode()): Role(d["role"]) for d in set_of(case["devices"])},
        records=[
            Record(
                **_common(r),
                kind=RecordKind(r["kind"]),
                to=DeviceId(r["to"].encode()),
                prev=_maybe(r["prev"]),
                number=r["number"],
                head=_maybe(r["head"]),
                pending=tuple(EffectId(e.encode()) for e in r.get("pending", ())),
            )
            for r in set_of(case["records"])
        ],
        checkpoints=[
            Checkpoint(
                **_common(c),
                token=_sid(c["token"]),
                parents=tuple(map(_sid, c["parents"])),
                effects=_progress(c["effects"]),
                closing=c.get("closing", False),
                journal=_progress(c.get("journal", {})),
            )
            for c in set_of(case["checkpoints"])
        ],
        revocations=[
            Revocation(**_common(v), device=DeviceId(v["device"].encode()), last=_maybe(v["last"]))
            for v in set_of(case["revocations"])
        ],
        intents=[Intent(**_common(i), **_of_effect(i)) for i in set_of(_named(case.get("intents", [])))],
        receipts=[Receipt(**_common(r), **_of_effect(r)) for r in set_of(case.get("receipts", []))],
        tombstones=[
            Tombstone(
                **_common(t),
                heads=tuple(map(_sid, t["heads"])),
                covers=frozenset(id.encode() for id in t["covers"]),
            )
            for t in set_of(case.get("tombstones", []))
        ],
        kinds={EffectId(e.encode()): EffectKind(k["kind"]) for e, k in case.get("effects", {}).items()},
    )


def said_by(view: View) -> dict[str, Any]:
    """The view in the words of the case files."""

    def words(ids: frozenset[Any]) -> list[str]:
        return sorted(id.decode() for id in ids)

    return {
        "owner": view.owner and view.owner.decode(),
        "owner_revoked": view.owner_revoked,
        "token": view.token and {"number": view.token.number, "id": view.token.id.decode()},
        "main": view.main and view.main.decode(),
        "heads": words(view.heads),
        "competing": view.competing,
        "refused": words(view.refused),
        "held": words(view.held),
        "sealed": words(view.sealed),
        "revoked": words(view.revoked),
        "uncertain_effects": words(view.uncertain),
        "evidence": words(view.evidence),
        "removed": view.removed,
        "beyond_removal": words(view.beyond_removal),
    }


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_case_has_its_right_answer_in_every_order(case: dict[str, Any]) -> None:
    for seed in range(20):
        assert said_by(view_of(case, random.Random(seed))) == NOTHING_REMOVED | case["expect"], case["why"]
