"""The key that comes of a code: both sides have it, of one code and of the two devices that the channel proved."""

from __future__ import annotations

import itertools
from hashlib import shake_256

import pytest

from hhd.identity.spake import Spake
from hhd_protocol.ids import DeviceId
from hhd_protocol.pairing import Side

LAPTOP, DESKTOP, THIEF = (DeviceId(name * 32) for name in (b"l", b"d", b"t"))
CODE = "12345674"


def side(
    side: Side, code: str = CODE, *, guesser: DeviceId = DESKTOP, shower: DeviceId = LAPTOP, salt: bytes = b""
) -> Spake:
    """One side; what it draws is the same each time, so that keys differ for no other reason than the one tested."""
    count = itertools.count()

    def random(length: int) -> bytes:
        return shake_256(side.value.encode() + salt + bytes([next(count)])).digest(length)

    return Spake(side, code, guesser=guesser, shower=shower, random=random)


def keys(guesser: Spake, shower: Spake) -> tuple[bytes, bytes]:
    """What each side has once both messages were passed on untouched."""
    one, other = guesser.start(), shower.start()
    return guesser.finish(other), shower.finish(one)


def test_both_sides_have_one_key_of_32_bytes() -> None:
    one, other = keys(side(Side.GUESSER), side(Side.SHOWER))
    assert one == other and len(one) == 32


def test_another_code_is_another_key() -> None:
    one, other = keys(side(Side.GUESSER, "00000000"), side(Side.SHOWER))
    assert one != other


@pytest.mark.parametrize(
    ("seen_by_guesser", "seen_by_shower"),
    [
        ({"shower": THIEF}, {"guesser": THIEF}),
        ({"shower": THIEF}, {}),
        ({}, {"guesser": THIEF}),
        ({"guesser": LAPTOP, "shower": DESKTOP}, {}),
    ],
)
def test_who_passes_the_messages_on_untouched_as_another_device_gets_two_keys(
    seen_by_guesser: dict[str, DeviceId], seen_by_shower: dict[str, DeviceId]
) -> None:
    """The code is the same on both sides and so are the messages: only whom the channel leads to is not."""
    one, other = keys(side(Side.GUESSER, **seen_by_guesser), side(Side.SHOWER, **seen_by_shower))
    assert one != other


def test_a_message_of_the_same_side_and_nonsense_are_no_messages() -> None:
    zero, small = b"B\x01" + bytes(31), b"B" + bytes(32)
    no_point, short = b"B" * 33, b"B" + bytes(3)
    for message in (side(Side.GUESSER, salt=b"else").start(), b"", zero, small, no_point, short, bytes(1000)):
        guesser = side(Side.GUESSER)
        guesser.start()
        with pytest.raises(ValueError, match="not a message of the other side"):
            guesser.finish(message)
