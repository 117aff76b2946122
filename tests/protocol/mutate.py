"""Changes one thing in a value or in bytes, for feeding decoders with what is nearly right."""

from __future__ import annotations

import random

from hhd_protocol.codec import Value


def mutated(value: Value, dice: random.Random) -> Value:
    """Return a value with one thing in it changed."""
    if isinstance(value, list) and value and dice.random() < 0.9:
        at = dice.randrange(len(value))
        if dice.random() < 0.08:
            return value[:at] + value[at + 1 :]
        return [*value[:at], mutated(value[at], dice), *value[at + 1 :]]
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value, key=repr))
        return {**value, key: mutated(value[key], dice)}
    if isinstance(value, bool) or value is None:
        return dice.choice([None, True, False, 0, b""])
    if isinstance(value, int):
        return dice.choice([value + 1, value - 1, 0, -1, 255, 256, 257, 65535, 2**31, 2**63, 2**64 - 1])
    if isinstance(value, bytes):
        return mutated_bytes(value, dice)
    if isinstance(value, str):
        return dice.choice([value + "x", "", value[1:], b"", 7])
    return dice.choice([[], {}, [value, value], None])


def mutated_bytes(raw: bytes, dice: random.Random) -> bytes:
    """Return `raw` with a few bytes changed, cut, doubled or added."""
    out = bytearray(raw)
    for _ in range(dice.randrange(1, 4)):
        kind = dice.randrange(5)
        at = dice.randrange(len(out) + 1)
        if kind == 0 and out:
            out[at % len(out)] = dice.choice((0, 1, 255, 128, dice.randrange(256)))
        elif kind == 1:
            del out[at:]
        elif kind == 2:
            out[at:at] = dice.randbytes(dice.randrange(1, 5))
        elif kind == 3:
            del out[at : at + dice.randrange(1, 40)]
        else:
            out += out[at : at + 40]
    return bytes(out)
