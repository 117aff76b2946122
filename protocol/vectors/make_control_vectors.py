"""Writes control.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import control
from hhd_protocol.control import Answer, Cancel, End, Event, Failed, FromClient, FromDaemon, Hello, Request
from hhd_protocol.frames import frame

FROM_CLIENT: dict[str, FromClient] = {
    "hello": Hello((1,), "0.1.0"),
    "hello of three versions": Hello((7, 2, 1), "9.0"),
    "request": Request(0, "show", {"name": "the parser", "head": None}),
    "request without arguments": Request(2**53 - 1, "status", {}),
    "cancel": Cancel(3),
}
FROM_DAEMON: dict[str, FromDaemon] = {
    "hello": Hello((1,), "0.1.0"),
    "answer": Answer(0, {"session": "31c0", "heads": [], "whole": True}),
    "answer of nothing": Answer(1, None),
    "failed": Failed(2, "No session is named x.", 2),
    "event": Event(3, 0, b"what was said"),
    "end": End(3),
}

if __name__ == "__main__":
    made = {
        "from-client": {name: frame(control.encoded(one)).hex() for name, one in FROM_CLIENT.items()},
        "from-daemon": {name: frame(control.encoded(one)).hex() for name, one in FROM_DAEMON.items()},
    }
    Path(__file__).with_name("control.json").write_text(json.dumps(made, indent=1) + "\n")
