"""What two devices say while they pair, in bytes (`pairing.md`, Messages); read with every bound checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import GroupRecordId
from hhd_protocol.limits import (
    GROUP_RECORD_BYTES_MAX,
    GROUP_RECORDS_MAX,
    PAIRING_BATCH_BYTES,
    PAIRING_MESSAGE_BYTES_MAX,
)

VERSION = 1
PAKE_BYTES, COMMITMENT_BYTES, MAC_BYTES = 33, 32, 32
OPENING_BYTES_MAX = 4096
"""Nonce and card: the longest name has 1,024 bytes."""
_PLAIN_BYTES_MAX = PAIRING_MESSAGE_BYTES_MAX - 64


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The half of the key exchange, and a commitment to the opening that comes later."""

    pake: bytes
    commitment: bytes


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Proof that its sender knows the key, and what the commitment was to, sealed."""

    mac: bytes
    box: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """One of `Words`, sealed."""

    box: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Yes:
    """The person there found the words equal and agreed."""


@dataclass(frozen=True, kw_only=True)
class No:
    """The person there declined, or the device could not do it after all."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """Some records of the group."""

    raws: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Done:
    """All records were sent: `count` of them, of the group that `root` founded."""

    root: GroupRecordId
    count: int


Message = Hello | Opening | Sealed
Words = Yes | No | Records | Done


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message."""
    match message:
        case Hello():
            return encode([VERSION, "hello", message.pake, message.commitment])
        case Opening():
            return encode([VERSION, "open", message.mac, message.box])
        case Sealed():
            return encode([VERSION, "sealed", message.box])


def decode_message(raw: bytes) -> Message:
    """Return the message that `raw` is; raises FormatError."""
    if len(raw) > PAIRING_MESSAGE_BYTES_MAX:
        raise TooLargeError(f"a message of pairing of {len(raw)} bytes passes the bound of {PAIRING_MESSAGE_BYTES_MAX}")
    fields = decode(raw)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise FormatError("a message of pairing is not a list that begins with its version")
    if fields[0] > VERSION:
        raise NewerVersionError("a message of pairing is of a newer version than this program knows")
    match fields:
        case [1, "hello", bytes(pake), bytes(commitment)]:
            if len(pake) == PAKE_BYTES and len(commitment) == COMMITMENT_BYTES:
                return Hello(pake=pake, commitment=commitment)
        case [1, "open", bytes(mac), bytes(box)]:
            if len(mac) == MAC_BYTES and len(box) <= OPENING_BYTES_MAX:
                return Opening(mac=mac, box=box)
        case [1, "sealed", bytes(box)]:
            return Sealed(box=box)
    raise FormatError("a message of pairing is not as its version says")


def encode_words(words: Words) -> bytes:
    """Return what is sealed."""
    match words:
        case Yes():
            return encode(["yes"])
        case No():
            return encode(["no"])
        case Records():
            return encode(["records", list[Value](words.raws)])
        case Done():
            return encode(["done", words.root, words.count])


def decode_words(raw: bytes) -> Words:
    """Return what was sealed; raises FormatError."""
    match decode(raw, bytes_max=_PLAIN_BYTES_MAX):
        case ["yes"]:
            return Yes()
        case ["no"]:
            return No()
        case ["records", list(raws)] if raws:
            found = tuple(one for one in raws if isinstance(one, bytes) and len(one) <= GROUP_RECORD_BYTES_MAX)
            if len(found) == len(raws):
                return Records(raws=found)
        case ["done", bytes(root), int(count)] if len(root) == 32 and 0 <= count <= GROUP_RECORDS_MAX:
            return Done(root=GroupRecordId(root), count=count)
    raise FormatError("a sealed message of pairing is not one that there is")


def batches(raws: Iterable[bytes]) -> Iterator[Records]:
    """Cut records into messages: small ones together, a large one alone."""
    batch: list[bytes] = []
    size = 0
    for raw in raws:
        if batch and size + len(raw) > PAIRING_BATCH_BYTES:
            yield Records(raws=tuple(batch))
            batch, size = [], 0
        batch.append(raw)
        size += len(raw) + 8
    if batch:
        yield Records(raws=tuple(batch))
