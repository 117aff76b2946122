"""Writes live.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import live
from hhd_protocol.codec import encode

EVENTS: dict[str, live.Event] = {
    "attached": live.Attached(
        session="31c0", title="Fix the parser", program="agent", folder="/home/alice/work", position=4711, by="pts/3"
    ),
    "emitted": live.Emitted(position=4711, piece=b'{"event":"turn"}\n'),
    "words": live.Words(text="I will look"),
    "words that are no UTF-8": live.Words(text="a\udc80b"),
    "notice": live.Notice(text="The model did not answer; it is asked again."),
    "question": live.Question(
        id="7.1", pages=("Run a command?\n", "make test\n"), shown=bytes(range(32)), always="make"
    ),
    "question without always": live.Question(id="7.2", pages=("Write?\n",), shown=bytes(32), always=""),
    "listening": live.Listening(id="8.1", prompt="What next?", why="next"),
    "settled by one": live.Settled(id="7.1", by="pts/4", word="yes"),
    "settled by nobody": live.Settled(id="7.1", by="", word=""),
    "said": live.Said(by="pts/3", text="not that file"),
    "keys": live.Keys(by="pts/3", line="not th"),
    "state": live.State(name="running", sentence="", ways=(), effect="", status=0),
    "state of one that waits": live.State(
        name="waiting",
        sentence="It needs your yes before it runs.",
        ways=("go on at a terminal",),
        effect="tool",
        status=3,
    ),
    "spent": live.Spent(calls=12, tokens=34567),
    "missed": live.Missed(events=3),
}

if __name__ == "__main__":
    made = {name: encode(live.encoded(one)).hex() for name, one in EVENTS.items()}
    Path(__file__).with_name("live.json").write_text(json.dumps(made, indent=1) + "\n")
