"""Writes steps.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from hhd_protocol.ids import Sha256
from hhd_protocol.journal import Approval, Settled, State
from hhd_protocol.paused import At, Limits
from hhd_protocol.steps import InMemory, Live, Opening, Place, StepRecord, encode_opening, encode_step

DIGEST = Sha256(sha256(b"what was asked").digest())
OPENING = Opening(
    program="agent",
    module=Sha256(sha256(b"module").digest()),
    module_bytes=1000,
    args=b'{"prompt":"go"}',
    limits=Limits(),
)
PLACE = Place(start=0, length=len(encode_opening(OPENING)))
SETTLED = Settled(
    index=6,
    op="tool",
    request=DIGEST,
    request_bytes=14,
    reply=DIGEST,
    reply_bytes=14,
    starts=1,
    approval=Approval(shown=DIGEST, agreed=True),
    cancelled=False,
)
BARE = StepRecord(before=None, opening=PLACE, at=At.FRESH, checks=0, steps=0, settled=0, live=None, closed=None)


def live(request: bytes | InMemory | Place, state: State, reply: Place | None = None) -> Live:
    return Live(
        op="model",
        request=request,
        state=state,
        starts=0 if state is State.ASKED else 1,
        reply=reply,
        approval=None,
        cancelled=False,
    )


RECORDS = {
    "fresh": BARE,
    "waits with a short request": StepRecord(
        before=300,
        opening=PLACE,
        at=At.EFFECT,
        checks=12,
        steps=1,
        settled=0,
        live=live(b"{}", State.ASKED),
        closed=None,
    ),
    "waits with a request in memory": StepRecord(
        before=700,
        opening=PLACE,
        at=At.EFFECT,
        checks=70_000,
        steps=15,
        settled=7,
        live=live(InMemory(address=65_600, length=5000, digest=DIGEST), State.STARTED),
        closed=SETTLED,
        counts={"machine": (1, 1), "model": (3, 4), "tool": (3, 3)},
        tokens=1234,
        transcript_bytes=2222,
    ),
    "runs on after a reply": StepRecord(
        before=9000,
        opening=PLACE,
        at=At.INTERRUPTED,
        checks=2**40,
        steps=16,
        settled=7,
        live=live(Place(start=9000, length=5000), State.ANSWERED, Place(start=800, length=333)),
        closed=None,
        counts={"model": (3, 4)},
    ),
}


def main() -> None:
    """Write the file."""
    vectors = {
        "opening": encode_opening(OPENING).hex(),
        "records": {name: encode_step(record).hex() for name, record in RECORDS.items()},
    }
    (Path(__file__).parent / "steps.json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
