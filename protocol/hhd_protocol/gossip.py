"""What linked devices say of the records of their group until both have the same ones (`spec/peers.md`).

    machine = Gossip(records); send each of machine.begin()
    for each message: send each of Heard.send, keep Heard.records
    whenever there are other records here: send each of machine.changed(records)

Records are bytes here, named by their hash: what they mean, and whether they are kept, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.limits import (
    GOSSIP_BATCH_BYTES,
    GOSSIP_MESSAGE_BYTES_MAX,
    GOSSIP_ROUNDS_MAX,
    LINK_MESSAGE_BYTES_MAX,
)

VERSION = 1
ID_BYTES = 32
HAVE, IDS, RECORDS = 1, 2, 3
_MORE, _LAST = b"\0", b"\1"


class Heard(NamedTuple):
    """What to do about a message: what to send, and which records came."""

    send: tuple[bytes, ...] = ()
    records: tuple[bytes, ...] = ()


class Gossip:
    """One side of one link. `settled`: everything that the peer had when the link began has come."""

    def __init__(self, records: Iterable[bytes]) -> None:
        self._records = _named(records)
        self._asked = False
        self._rounds = 0
        self.settled = False

    def begin(self) -> tuple[bytes, ...]:
        """Return what is sent first."""
        return (_message(HAVE, digest(self._records)),)

    def changed(self, records: Iterable[bytes]) -> tuple[bytes, ...]:
        """There are these records now, all of them: return what to send of them."""
        now = _named(records)
        fresh = [now[name] for name in sorted(now.keys() - self._records.keys())]
        self._records = now
        return tuple(_batches(fresh, last=False))

    def heard(self, raw: bytes) -> Heard:
        """Take in a message; raises FormatError."""
        match _decoded(raw):
            case [1, 1, bytes(theirs)] if len(theirs) == ID_BYTES:
                self._count()
                if theirs == digest(self._records):
                    self.settled = True
                    return Heard()
                self._asked = True
                return Heard(send=(_message(IDS, list[Value](sorted(self._records))),))
            case [1, 2, list(ids)]:
                self._count()
                names = {one for one in ids if isinstance(one, bytes) and len(one) == ID_BYTES}
                if len(names) != len(ids):
                    raise FormatError("the ids of records are none, or one stands twice")
                missing = [self._records[name] for name in sorted(self._records.keys() - names)]
                return Heard(send=tuple(_batches(missing, last=True)))
            case [1, 3, bool(last), list(several)]:
                records = tuple(one for one in several if isinstance(one, bytes))
                if len(records) != len(several):
                    raise FormatError("a record of the group is no bytes")
                if last:
                    if not self._asked:
                        raise FormatError("records came that nobody asked for")
                    self._asked, self.settled = False, True
                self._records.update(_named(records))  # They are not sent back.
                return Heard(records=records)
        raise FormatError("a message about the group is in no form known here")

    def _count(self) -> None:
        self._rounds += 1
        if self._rounds > GOSSIP_ROUNDS_MAX:
            raise FormatError("a peer asks for the records of the group again and again")


def digest(names: Iterable[bytes]) -> bytes:
    """Return what stands for a set of records, by their ids."""
    return sha256(b"hhd group records\0" + b"".join(sorted(names))).digest()


def parts(message: bytes, *, bytes_max: int = LINK_MESSAGE_BYTES_MAX) -> Iterator[bytes]:
    """Yield the messages of a channel that carry one of any length."""
    size = bytes_max - 1
    for at in range(0, max(len(message), 1), size):
        yield (_LAST if at + size >= len(message) else _MORE) + message[at : at + size]


class Joiner:
    """Puts together what `parts` took apart, up to `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._begun = bytearray()

    def add(self, part: bytes) -> bytes | None:
        """Return the message that `part` ends, None if more belongs to it; raises FormatError."""
        if part[:1] not in (_MORE, _LAST) or (part[:1] == _MORE and len(part) == 1):
            raise FormatError("a part of a message does not say whether it is the last, or is empty")
        if len(self._begun) + len(part) - 1 > self._bytes_max:
            raise FormatError("a message in parts is too long")
        self._begun += part[1:]
        if part[:1] == _MORE:
            return None
        whole, self._begun = bytes(self._begun), bytearray()
        return whole


def _batches(records: list[bytes], *, last: bool) -> Iterator[bytes]:
    """Yield records in messages of a bounded size; with `last`, one that says so even if there is nothing to say."""
    batch: list[Value] = []
    size = 0
    for record in records:
        if batch and size + len(record) > GOSSIP_BATCH_BYTES:
            yield _message(RECORDS, False, batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record)
    if batch or last:
        yield _message(RECORDS, last, batch)


def _named(records: Iterable[bytes]) -> dict[bytes, bytes]:
    return {sha256(raw).digest(): raw for raw in records}


def _message(kind: int, *fields: Value) -> bytes:
    return encode([VERSION, kind, *fields])


def _decoded(raw: bytes) -> Value:
    value = decode(raw, bytes_max=GOSSIP_MESSAGE_BYTES_MAX)
    if not isinstance(value, list) or len(value) < 2 or not all(type(one) is int for one in value[:2]):
        raise FormatError("a message about the group does not begin with its version and kind")
    if isinstance(value[0], int) and value[0] > VERSION:
        raise NewerVersionError("a message about the group is of a newer hhd")
    return value
