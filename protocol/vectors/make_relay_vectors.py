"""Writes relay.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import live, relay

SESSION, ID = b"s" * 32, b"i" * 16

MESSAGES: dict[str, relay.Message] = {
    "watch": relay.Watch(session=SESSION, position=4711, by="pts/3"),
    "watch from where it ends": relay.Watch(session=SESSION, position=None, by=""),
    "event": live.Emitted(position=4711, piece=b'{"event":"turn"}\n'),
    "event of the moment": live.Words(text="I will look"),
    "over": relay.Over(why="elsewhere", sentence="It runs at another device.", exit=3),
    "say": relay.Say(id=ID, session=SESSION, text="not that file", by="laptop pts/3"),
    "answer": relay.Answer(
        id=ID, session=SESSION, question="7.1", shown=bytes(range(32)), choice="no", message="later", by="pts/3"
    ),
    "pause": relay.Pause(id=ID, session=SESSION),
    "resume": relay.Resume(id=ID, session=SESSION),
    "find": relay.Find(id=ID, name="parser"),
    "keys": relay.Keys(session=SESSION, line="not th", by="pts/3"),
    "heard": relay.Heard(id=ID, how="steering"),
    "counted": relay.Counted(id=ID, counted=False, by="desktop pts/1"),
    "rested": relay.Rested(id=ID, state="paused", sentence="It is paused."),
    "resumed": relay.Resumed(id=ID, fresh=True),
    "found": relay.Found(id=ID, session=SESSION),
    "doubt": relay.Doubt(id=ID, session=SESSION, effect=None),
    "doubt of an effect by its number": relay.Doubt(id=ID, session=SESSION, effect=7),
    "settle": relay.Settle(
        id=ID, session=SESSION, effect=7, shown=bytes(range(32)), word="ran", output="done", by="pts/3"
    ),
    "doubted": relay.Doubted(id=ID, effect=7, op="tool", text="Run a command:\n    make test"),
    "settled": relay.Settled(id=ID, effect=7, op="tool"),
    "list": relay.List(id=ID),
    "rows": relay.Rows(
        id=ID,
        rows=(
            relay.Row(
                session=SESSION,
                title="the parser",
                program="agent",
                state="waiting for you",
                waiting="input",
                owner=bytes(range(32)),
                token=3,
                heads=1,
                archived=False,
                at_ms=1796036445485,
                turns=12,
                folder="/home/alice/project",
            ),
        ),
        left_out=2,
    ),
    "rows of one who has none": relay.Rows(id=ID, rows=(), left_out=0),
    "refused": relay.Refused(id=ID, why="right", sentence="This device may not approve there.", exit=3),
}

if __name__ == "__main__":
    made = {name: relay.encode_message(one).hex() for name, one in MESSAGES.items()}
    Path(__file__).with_name("relay.json").write_text(json.dumps(made, indent=1) + "\n")
