"""Writes handoff.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol.handoff import (
    Abort,
    Admit,
    Already,
    AnyAside,
    AnyMessage,
    Ask,
    Begun,
    Closed,
    Inquire,
    LoadedThere,
    Needs,
    Offer,
    Please,
    Prepare,
    Probe,
    Record,
    RefuseOffer,
    Rehearse,
    Rehearsed,
    ReleaseTo,
    Side,
    Stage,
    Superseded,
    Told,
    Took,
    encode_message,
    encode_record,
)
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId

TRANSFER, SESSION = TransferId(b"t" * 16), SessionId(StatementId(b"s" * 32))
HEAD, TOKEN, PEER = CheckpointId(StatementId(b"h" * 32)), StatementId(b"k" * 32), DeviceId(b"p" * 32)
RELEASE = b"a signed release"
_A = {"transfer": TRANSFER, "session": SESSION}

MESSAGES: dict[str, AnyMessage | AnyAside] = {
    "offer": Offer(
        **_A,
        hhd="0.1.0",
        token=TOKEN,
        head=HEAD,
        needs=Needs(
            size_bytes=9_000_000,
            memory_bytes=2**28,
            module=b"m" * 32,
            tools=("git", "make"),
            model="claude",
            sandboxed=True,
            folder="repo",
            remotes=("ssh://git.test/repo",),
            root=b"r" * 20,
            formats=("guest-abi 1", "workspace 1"),
            named=("npm",),
        ),
    ),
    "offer of a session without a folder": Offer(
        **_A, hhd="0.1.0", token=TOKEN, head=HEAD, needs=Needs(size_bytes=0, memory_bytes=0)
    ),
    "admit": Admit(**_A, where="/home/me/repo", notes=("the model is another one",)),
    "refuse": RefuseOffer(**_A, why="there is no room", way="free 3 GiB, or raise store.size"),
    "prepare": Prepare(**_A, head=HEAD),
    "loaded there": LoadedThere(**_A, head=HEAD),
    "release": ReleaseTo(**_A, statement=RELEASE),
    "took": Took(**_A, statement=RELEASE),
    "closed": Closed(**_A),
    "already": Already(**_A, statement=RELEASE),
    "ask": Ask(**_A),
    "abort": Abort(**_A, why="a person said so"),
    "superseded": Superseded(**_A),
    "probe": Probe(**_A, hhd="0.1.0", token=TOKEN, head=HEAD, needs=Needs(size_bytes=1, memory_bytes=2)),
    "inquire": Inquire(**_A, to=PEER),
    "please": Please(**_A, to=PEER, cancel_running=True, deadline_ms=5_000),
    "rehearse": Rehearse(**_A, head=HEAD),
    "rehearsed": Rehearsed(**_A, head=HEAD),
    "begun": Begun(**_A, runs=True, notes=("its files are elsewhere",)),
    "told": Told(**_A, stage="released", sentence="it is released", way="wait", over=False, status=0),
    "told with notes": Told(
        **_A,
        stage="acknowledged",
        sentence="it is there",
        way="",
        over=True,
        status=0,
        notes=("its files are elsewhere",),
    ),
}

_R = {"transfer": TRANSFER, "session": SESSION, "peer": PEER}
RECORDS: dict[str, Record] = {
    "offered": Record(
        **_R,
        side=Side.SOURCE,
        stage=Stage.OFFERED,
        token=TOKEN,
        cancel_running=True,
        deadline_ms=60_000,
        at_ms=1_764_000_000_000,
    ),
    "released": Record(**_R, side=Side.SOURCE, stage=Stage.RELEASED, token=TOKEN, head=HEAD, release=RELEASE),
    "taken": Record(**_R, side=Side.TARGET, stage=Stage.TAKEN, head=HEAD, release=RELEASE),
    "aborted": Record(**_R, side=Side.TARGET, stage=Stage.ABORTED, why="its program does not load"),
    "denied": Record(**_R, side=Side.TARGET, stage=Stage.SUPERSEDED, release=RELEASE, denied=True),
}

if __name__ == "__main__":
    made = {
        "messages": {name: encode_message(one).hex() for name, one in MESSAGES.items()},
        "records": {name: encode_record(one).hex() for name, one in RECORDS.items()},
    }
    Path(__file__).with_name("handoff.json").write_text(json.dumps(made, indent=1) + "\n")
