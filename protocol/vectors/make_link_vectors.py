"""Writes link.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import link
from hhd_protocol.link import Frame, Hello, Kind

HELLOS: dict[str, Hello] = {
    "hello of who dialled": Hello((1,), bytes(range(16)), 3, "0.1.0"),
    "hello of who was dialled": Hello((1,), bytes(16), 0, "0.1.0"),
    "hello of three versions": Hello((7, 2, 1), b"\xff" * 16, 2**53 - 1, "9.0"),
}
FRAMES: dict[str, Frame] = {
    "open": Frame(Kind.OPEN, 1, False, b"pages"),
    "open, urgent": Frame(Kind.OPEN, 2, True, b"sync"),
    "data": Frame(Kind.DATA, 1, False, b"the begin of a message"),
    "data, last": Frame(Kind.DATA, 2**32 - 1, True, b"its end"),
    "data, an empty message": Frame(Kind.DATA, 1, True, b""),
    "credit": Frame(Kind.CREDIT, 1, False, link.credit(2**19)),
    "end": Frame(Kind.END, 2, False, b""),
    "ping": Frame(Kind.PING, 0, False, link.number(1)),
    "pong": Frame(Kind.PONG, 0, False, link.number(2**53 - 1)),
    "bye": Frame(Kind.BYE, 0, False, "the daemon ends — für jetzt".encode()),
}


def encoded(one: Frame) -> bytes:
    """A frame in bytes."""
    return link.frame(one.kind, one.channel, one.content, flag=one.flag)


if __name__ == "__main__":
    made = {
        "hello": {name: link.hello(one).hex() for name, one in HELLOS.items()},
        "frame": {name: encoded(one).hex() for name, one in FRAMES.items()},
    }
    Path(__file__).with_name("link.json").write_text(json.dumps(made, indent=1) + "\n")
