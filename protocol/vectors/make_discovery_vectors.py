"""Writes discovery.json beside it; run by hand when the format changes."""

from __future__ import annotations

import json
from pathlib import Path

from hhd_protocol import announcement
from hhd_protocol.crypto import device_id, public_key

LAPTOP, DESKTOP, PHONE, STRANGER = (bytes([number] * 32) for number in range(1, 5))
"""Seeds of the vectors' devices."""
NONCE = bytes(range(8))
FILLER = bytes(range(100, 124))


def made(others: tuple[bytes, ...], *, pairing: bool = False) -> announcement.Announcement:
    """Return what the laptop announces to `others`, by their seeds."""
    keys = [announcement.pair_key(LAPTOP, public_key(seed)) for seed in others]
    return announcement.announcement(device_id(public_key(LAPTOP)), keys, NONCE, FILLER, pairing=pairing)


ANNOUNCED = {
    "to nobody, with a code open": made((), pairing=True),
    "to the desktop": made((DESKTOP,)),
    "to desktop and phone": made((DESKTOP, PHONE)),
    "to five": made(tuple(bytes([number] * 32) for number in range(2, 7))),
}

if __name__ == "__main__":
    vectors = {
        name: {
            "instance": one.label,
            "properties": {key.decode(): value.hex() for key, value in one.properties().items()},
        }
        for name, one in ANNOUNCED.items()
    }
    Path(__file__).with_name("discovery.json").write_text(json.dumps(vectors, indent=1) + "\n")
