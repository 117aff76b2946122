"""The messages of sync as bytes.

A message is the canonical encoding of a list whose first item says which one it is. Everything in it is a peer's word:
lengths and counts are checked here, meanings by who takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.columns import decode_rising, encode_rising
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import (
    OBJECT_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    SYNC_BUCKET_BITS_MAX,
    SYNC_IDS_MAX,
    SYNC_MESSAGE_BYTES_MAX,
    SYNC_SESSIONS_MAX,
    SYNC_STATEMENTS_MESSAGE_MAX,
)
from hhd_protocol.sync.messages import (
    DIGEST_BYTES,
    LETTER,
    SIZES_MAX,
    Absent,
    Acknowledge,
    Answered,
    Ask,
    AskKeys,
    Bare,
    Begin,
    Buckets,
    Compared,
    Differ,
    Entries,
    Entry,
    Had,
    Hello,
    Holding,
    Keys,
    Message,
    Part,
    Rebuild,
    Statements,
    Want,
)


def encode_message(message: Message) -> bytes:
    """Return the message as bytes; one longer than the bound is a bug of the sender."""
    number = _NUMBERS[type(message)]
    raw = encode([number, *(_TABLE[number][1][one.name][0](getattr(message, one.name)) for one in fields(message))])
    assert len(raw) <= SYNC_MESSAGE_BYTES_MAX
    return raw


def decode_message(raw: bytes) -> Message:
    """Return the message that `raw` is; raises FormatError."""
    value = decode(raw, bytes_max=SYNC_MESSAGE_BYTES_MAX)
    if not isinstance(value, list) or not value or type(value[0]) is not int or value[0] not in _TABLE:
        raise FormatError("a message of sync is of no kind known here")
    kind, forms = _TABLE[value[0]]
    if len(value) != len(forms) + 1:
        raise FormatError("a message of sync has the wrong number of fields")
    given = {name: form[1](one) for (name, form), one in zip(forms.items(), value[1:], strict=True)}
    message: Message = kind(**given)
    _insist(message)
    return message


def _insist(message: Message) -> None:
    """Raise FormatError where fields do not fit one another."""
    match message:
        case Buckets(bits=bits, digests=digests) if len(digests) != DIGEST_BYTES << bits:
            raise FormatError("the digests of buckets are not as many as they say")
        case Entries(bits=bits, buckets=buckets, sessions=sessions, digests=digests):
            if len(digests) != DIGEST_BYTES * len(sessions) or max(buckets, default=0) >= 1 << bits:
                raise FormatError("a list of sessions does not match its digests")
        case Part(what=what, offset=offset, total=total, content=content):
            if not content or not 0 <= offset <= total - len(content) or total > SIZES_MAX.get(what, 0):
                raise FormatError("a part lies outside of what it is a part of")
        case Begin(what=what, offset=offset) if offset > SIZES_MAX.get(what, 0):
            raise FormatError("more is said to be here than there can be")
        case _:
            pass


Form = tuple[Callable[[Any], Value], Callable[[Value], Any]]


def _same(value: Value) -> Value:
    return value


def _bytes(value: Value, *, size: int | None = None, most: int = SYNC_MESSAGE_BYTES_MAX) -> bytes:
    if not isinstance(value, bytes) or len(value) > most or (size is not None and len(value) != size):
        raise FormatError("a field of a message is not so many bytes")
    return value


def _count(value: Value, *, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise FormatError("a number in a message passes its bound")
    return value


def _flag(value: Value) -> bool:
    if type(value) is not bool:
        raise FormatError("a field of a message is not yes or no")
    return value


def _text(value: Value) -> str:
    if not isinstance(value, str) or len(value.encode("utf-8", "surrogatepass")) > 1024:
        raise FormatError("a text in a message passes its bound")
    return value


def _maybe(inner: Callable[[Value], Any], value: Value) -> Any:
    return None if value is None else inner(value)


def _joined(ids: tuple[bytes, ...]) -> Value:
    return b"".join(ids)


def _ids(value: Value) -> tuple[bytes, ...]:
    if not isinstance(value, bytes) or len(value) % 32 or len(value) > 32 * SYNC_IDS_MAX:
        raise FormatError("a list in a message is not one of ids")
    return tuple(value[at : at + 32] for at in range(0, len(value), 32))


def _rising(value: Value) -> tuple[int, ...]:
    return tuple(decode_rising(value, below=1 << SYNC_BUCKET_BITS_MAX))


def _many(value: Value, *, most: int) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise FormatError("a list in a message passes its bound")
    return tuple(_bytes(one) for one in value)


def _entries(value: Value) -> tuple[Entry, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= SYNC_STATEMENTS_MESSAGE_MAX:
        raise FormatError("a list of statements is empty, or passes its bound")
    found = []
    for one in value:
        match one:
            case [bytes(raw), None | bytes() as payload, bool(thinned)] if len(raw) <= STATEMENT_BYTES_MAX:
                found.append(Entry(raw=raw, payload=payload, thinned=thinned))
            case _:
                raise FormatError("a list of statements holds something else")
    return tuple(found)


_ID: Form = (_same, partial(_bytes, size=32))
_IDS: Form = (_joined, _ids)
_ROUND: Form = (_same, partial(_count, most=2**53 - 1))
_BITS: Form = (_same, partial(_count, most=SYNC_BUCKET_BITS_MAX))
_BOOL: Form = (_same, _flag)
_BYTES: Form = (_same, _bytes)
_WHAT: Form = (_same, partial(_count, most=LETTER))
_SIZE: Form = (_same, partial(_count, most=OBJECT_BYTES_MAX))
_RAWS: Form = (list, partial(_many, most=SYNC_STATEMENTS_MESSAGE_MAX))
_TEXT: Form = (_same, _text)

_TABLE: dict[int, tuple[type[Any], dict[str, Form]]] = {
    0: (
        Hello,
        {
            "version": (_same, partial(_count, most=2**16)),
            "incarnation": (_same, partial(_bytes, size=16)),
            "round": _ROUND,
            "count": (_same, partial(_count, most=SYNC_SESSIONS_MAX)),
            "root": _ID,
            "holding": _TEXT,
        },
    ),
    1: (Buckets, {"round": _ROUND, "bits": _BITS, "digests": _BYTES}),
    2: (
        Entries,
        {
            "round": _ROUND,
            "bits": _BITS,
            "buckets": (encode_rising, _rising),
            "sessions": _IDS,
            "digests": _BYTES,
            "more": _BOOL,
        },
    ),
    3: (Differ, {"round": _ROUND, "sessions": _IDS, "more": _BOOL}),
    4: (Ask, {"session": _ID, "ends": _IDS, "marks": _IDS, "loose": _IDS, "lacking": _IDS}),
    5: (Compared, {"round": _ROUND}),
    6: (Answered, {"round": _ROUND}),
    7: (
        Statements,
        {
            "session": _ID,
            "entries": (lambda entries: [[one.raw, one.payload, one.thinned] for one in entries], _entries),
            "objects": _RAWS,
        },
    ),
    8: (Want, {"session": _ID, "objects": _IDS, "modules": _IDS}),
    9: (Absent, {"objects": _IDS, "modules": _IDS}),
    10: (Part, {"what": _WHAT, "name": _ID, "offset": _SIZE, "total": _SIZE, "content": _BYTES}),
    11: (Rebuild, {"name": _ID, "session": _ID, "recipe": _BYTES}),
    12: (Begin, {"what": _WHAT, "name": _ID, "offset": _SIZE}),
    13: (Acknowledge, {"session": _ID, "statements": _IDS, "whole": _IDS}),
    14: (
        Keys,
        {
            "session": _ID,
            "family": (_same, partial(_bytes, size=16)),
            "epoch": _ID,
            "wrapped": (list, partial(_many, most=1024)),
        },
    ),
    15: (AskKeys, {"session": _ID}),
    16: (Holding, {"why": _TEXT, "session": (_same, partial(_maybe, partial(_bytes, size=32)))}),
    17: (Had, {"session": _ID, "records": _IDS}),
    18: (Bare, {"session": _ID, "checkpoints": _IDS}),
}
_NUMBERS = {kind: number for number, (kind, _) in _TABLE.items()}
