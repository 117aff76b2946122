"""Writes `sealed.json`: sealed capsules with what opens them and what is inside."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hhd_protocol import sealed
from hhd_protocol.crypto import public_key

HERE = Path(__file__).parent
SENDER, TARGET = hashlib.sha256(b"sender").digest(), hashlib.sha256(b"target").digest()
CONTENTS = {"short": b"a capsule", "two chunks": b"text of a capsule\n" * 15_000}


def vectors() -> list[dict[str, object]]:
    """Return one case for each way of sealing and each content; the longer file is named by its digest."""
    cases: list[dict[str, object]] = []
    for name, content in CONTENTS.items():
        for way in ("device", "passphrase"):
            given = {
                "file_key": hashlib.sha256(f"{name} {way} file key".encode()).digest(),
                "ephemeral_secret": hashlib.sha256(f"{name} ephemeral".encode()).digest(),
                "salt": hashlib.sha256(f"{name} salt".encode()).digest()[:16],
            }
            raw = b"".join(made(way, content, given))
            cases.append(
                {
                    "name": f"{name}, {way}",
                    "way": way,
                    "sender": SENDER.hex(),
                    "target": TARGET.hex(),
                    "passphrase": "correct horse",
                    "operations": 2,
                    "memory_bytes": 65536,
                    **{key: value.hex() for key, value in given.items()},
                    "content": name,
                    "sealed": raw.hex() if len(raw) < 1000 else None,
                    "sha256": hashlib.sha256(raw).hexdigest(),
                }
            )
    return cases


def made(way: str, content: bytes, given: dict[str, bytes]) -> list[bytes]:
    """Seal `content` in one of the two ways."""
    if way == "device":
        return list(
            sealed.seal_to_device(
                [content],
                to_public=public_key(TARGET),
                by_seed=SENDER,
                file_key=given["file_key"],
                ephemeral_secret=given["ephemeral_secret"],
            )
        )
    return list(
        sealed.seal_with_passphrase(
            [content],
            passphrase=b"correct horse",
            by_seed=SENDER,
            file_key=given["file_key"],
            salt=given["salt"],
            operations=2,
            memory_bytes=65536,
        )
    )


if __name__ == "__main__":
    contents = {
        name: {"piece": piece, "times": times}
        for name, piece, times in (("short", "a capsule", 1), ("two chunks", "text of a capsule\n", 15_000))
    }
    (HERE / "sealed.json").write_text(json.dumps({"contents": contents, "cases": vectors()}, indent=1) + "\n")
