"""Signed statements: what devices say of a session, bound to who said it (`protocol/spec/lineage.md`).

    signed = sign(CheckpointBody(session=..., by=..., after=..., ...), seed)
    again = decode(signed.raw)
    fact(again, verify(again, public_key))

A statement is the canonical encoding of [body, signature], the body as bytes; its id is the SHA-256 of it. Whoever
reads one decides nothing by it before its signature was checked: `fact` carries what the check found.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from hhd_protocol import crypto, statements
from hhd_protocol.bodies import (
    AnyBody,
    CheckpointBody,
    CreateBody,
    IntentBody,
    ReceiptBody,
    ReleaseBody,
    TakeoverBody,
    TombstoneBody,
)
from hhd_protocol.bodies_encoding import decode_body, encode_body
from hhd_protocol.codec import encode
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.ids import EffectId, SessionId, StatementId
from hhd_protocol.limits import STATEMENT_BYTES_MAX
from hhd_protocol.statements import Fact, Progress, RecordKind

PURPOSE = "statement"
"""What the signature is over, beside the body: no other thing that a device signs is mistaken for a statement."""


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A statement as it is sent and stored; `message` are the bytes of its body, which `signature` is over."""

    raw: bytes = field(repr=False)
    id: StatementId
    body: AnyBody
    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @property
    def session(self) -> SessionId:
        """The session that it speaks of: a create record's own id."""
        return SessionId(self.id) if self.body.session is None else self.body.session


def sign(body: AnyBody, seed: bytes) -> Signed:
    """Return `body` signed by the device of `seed`, which it must name; raises FormatError if it passes a bound."""
    assert body.by == crypto.device_id(crypto.public_key(seed)), "a device signs what it says itself"
    message = encode_body(body)
    assert decode_body(message) == body, "what is signed reads back as what was meant"
    signature = crypto.sign(seed, PURPOSE, message)
    raw = encode([message, signature])
    return Signed(raw=raw, id=StatementId(sha256(raw).digest()), body=body, message=message, signature=signature)


def decode(raw: bytes) -> Signed:
    """Return the statement that `raw` is, its signature unchecked; raises FormatError."""
    if len(raw) > STATEMENT_BYTES_MAX:
        raise TooLargeError(f"a statement of {len(raw)} bytes passes the bound of {STATEMENT_BYTES_MAX}")
    message, signature = _apart(raw)
    body = decode_body(message)
    return Signed(raw=raw, id=StatementId(sha256(raw).digest()), body=body, message=message, signature=signature)


_SIGNATURE_HEAD = b"\x58\x40"


def _apart(raw: bytes) -> tuple[bytes, bytes]:
    """Return body and signature: canonical CBOR has one form for two byte strings of known lengths.

    Taken apart by hand because a general decoder takes a quarter of what the whole of `decode` may take.
    """
    room = len(raw) - 1 - len(_SIGNATURE_HEAD) - crypto.SIGNATURE_BYTES
    width, lead = (1, 0x58) if room < 2 + 256 else (2, 0x59) if room < 3 + 65536 else (4, 0x5A)
    length = room - 1 - width
    if length >= _LENGTH_MIN[width]:
        begin = 2 + width
        end = begin + length
        head = bytes((0x82, lead)) + length.to_bytes(width, "big")
        if raw.startswith(head) and raw.startswith(_SIGNATURE_HEAD, end):
            return raw[begin:end], raw[end + len(_SIGNATURE_HEAD) :]
    raise FormatError("a statement is not a body with a signature")


_LENGTH_MIN = {1: 24, 2: 256, 4: 65536}
"""Below it, a byte string's length is written in fewer bytes."""


_device = functools.lru_cache(maxsize=64)(crypto.device_id)


def verify(signed: Signed, public: bytes) -> bool:
    """Say whether the device that the statement names signed it; `public` is the Ed25519 key that is held for it."""
    if _device(public) != signed.body.by:
        return False
    try:
        crypto.verify(public, PURPOSE, signed.message, signed.signature)
    except crypto.SealError:
        return False
    return True


def effect_id(session: SessionId, position: int) -> EffectId:
    """Return the id of the effect at `position` of a session's journal, whatever device and token."""
    return EffectId(sha256(b"hhd effect\0" + session + position.to_bytes(8, "big")).digest())


def fact(signed: Signed, good: bool) -> Fact:
    """Return what the statement says, for `fencing`; `good`: whether its signature was found to hold."""
    body, id, by, after = signed.body, signed.id, signed.body.by, signed.body.after
    match body:
        case CheckpointBody():
            return statements.Checkpoint(
                id=id,
                by=by,
                after=after,
                signature_good=good,
                token=body.token,
                parents=body.parents,
                effects=_by_id(signed.session, body.effects) if body.effects else {},
                closing=body.journal is not None,
                journal=_by_id(signed.session, body.journal) if body.journal else {},
            )
        case CreateBody():
            return statements.Record(
                id=id,
                by=by,
                after=after,
                signature_good=good,
                kind=RecordKind.CREATE,
                to=by,
                prev=None,
                number=1,
                head=None,
                pending=tuple(effect_id(signed.session, position) for position in body.pending),
            )
        case ReleaseBody() | TakeoverBody():
            release = isinstance(body, ReleaseBody)
            return statements.Record(
                id=id,
                by=by,
                after=after,
                signature_good=good,
                kind=RecordKind.RELEASE if release else RecordKind.TAKEOVER,
                to=body.to if isinstance(body, ReleaseBody) else by,
                prev=body.prev,
                number=body.number,
                head=body.head,
            )
        case IntentBody():
            effect = effect_id(signed.session, body.position)
            return statements.Intent(
                id=id, by=by, after=after, signature_good=good, effect=effect, token=body.token, request=body.request
            )
        case ReceiptBody():
            effect = effect_id(signed.session, body.position)
            return statements.Receipt(
                id=id, by=by, after=after, signature_good=good, effect=effect, token=body.token, reply=body.reply
            )
        case TombstoneBody():
            return statements.Tombstone(
                id=id, by=by, after=after, signature_good=good, heads=body.heads, covers=frozenset(body.covers)
            )


def _by_id(session: SessionId, progress: Mapping[int, Progress]) -> dict[EffectId, Progress]:
    return {effect_id(session, position): said for position, said in progress.items()}
