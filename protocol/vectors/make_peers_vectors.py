"""Writes peers.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import clock, gossip
from hhd_protocol.gossip import Gossip

OURS, THEIRS = (b"a record", b"another one"), (b"a record", b"a third", b"a fourth")


def talk() -> list[tuple[str, bytes]]:
    """Return what two devices with different records say, who said it in front."""
    sides = {"laptop": Gossip(OURS), "desktop": Gossip(THEIRS)}
    said = [(name, raw) for name, side in sides.items() for raw in side.begin()]
    for name, raw in said:
        other = "desktop" if name == "laptop" else "laptop"
        said += [(other, answer) for answer in sides[other].heard(raw).send]  # The list grows while it is walked.
    said += [("laptop", raw) for raw in sides["laptop"].changed([*OURS, *THEIRS, b"a revocation"])]
    return said


if __name__ == "__main__":
    vectors = {
        "talk": [[name, raw.hex()] for name, raw in talk()],
        "parts of 7 bytes": {
            "message": b"0123456789ab".hex(),
            "parts": [part.hex() for part in gossip.parts(b"0123456789ab", bytes_max=7)],
        },
        "clock": {"ask": clock.ASK.hex(), "told": {str(at): clock.encode_told(at).hex() for at in (0, 1796036445485)}},
        "parts of nothing": {"message": "", "parts": [part.hex() for part in gossip.parts(b"")]},
    }
    Path(__file__).with_name("peers.json").write_text(json.dumps(vectors, indent=1) + "\n")
