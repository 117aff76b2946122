"""What two linked devices say of their clocks (`spec/peers.md`): so that a person hears when they differ.

Nothing rests on it.

    send ASK; then skew_ms(decode_told(raw), asked_ms, answered_ms)
"""

from __future__ import annotations

from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.limits import CLOCK_BYTES_MAX

VERSION = 1
AT_MS_MAX = 2**53 - 1

ASK = encode([VERSION])
"""What time is it with you?"""


def insist_on_ask(raw: bytes) -> None:
    """Raise FormatError for anything but `ASK`."""
    if _decoded(raw) != [VERSION]:
        raise FormatError("something else is asked than the time")


def encode_told(at_ms: int) -> bytes:
    """Return the answer: the wall clock, in milliseconds since 1970."""
    return encode([VERSION, min(max(at_ms, 0), AT_MS_MAX)])


def decode_told(raw: bytes) -> int:
    """Return the time that an answer says; raises FormatError."""
    match _decoded(raw):
        case [int(), int(at_ms)] if type(at_ms) is int and 0 <= at_ms <= AT_MS_MAX:
            return at_ms
    raise FormatError("the time is not told in the form of it")


def skew_ms(told_ms: int, asked_ms: int, took_ms: int) -> int:
    """Return by how much a clock that said `told_ms` is ahead of this one, at least; less than 0: behind.

    `asked_ms`: this clock when it was asked; `took_ms`: until the answer was here. It was read somewhere in between.
    """
    if told_ms < asked_ms:
        return told_ms - asked_ms
    return max(0, told_ms - asked_ms - took_ms)


def _decoded(raw: bytes) -> list[object]:
    value = decode(raw, bytes_max=CLOCK_BYTES_MAX)
    if not isinstance(value, list) or not value or type(value[0]) is not int or value[0] < VERSION:
        raise FormatError("a message about clocks does not begin with its version")
    if value[0] > VERSION:
        raise NewerVersionError("a message about clocks is of a newer hhd")
    return list(value)
