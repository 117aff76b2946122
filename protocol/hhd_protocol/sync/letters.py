"""Letters: what full members leave with a store-only device for one another (`protocol/spec/sync.md`, Letters).

A letter is sealed to each reader's own key, so that who holds it reads nothing, not even which session it is of; and
whoever was a full member when it was written can go on from it alone, having never met its writer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import nacl.bindings as sodium
from nacl.exceptions import CryptoError

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.crypto import KEY_BYTES, SealError, derive, device_id, public_key, seal, sign, unseal, verify
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import DeviceId, EpochId, FamilyId, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import STATEMENT_BYTES_MAX, SYNC_LETTER_BYTES_MAX, SYNC_LETTER_READERS_MAX
from hhd_protocol.objects import Ref
from hhd_protocol.sync.messages import Entry

VERSION = 1
PURPOSE = "letter"
_ONE_USE_NONCE = bytes(24)
_SLOT_BYTES = KEY_BYTES + 16


@dataclass(frozen=True, kw_only=True)
class Letter:
    """Statements of a session, the keys to read it, and where the modules it runs lie."""

    by: DeviceId
    family: FamilyId
    page_key: bytes = field(repr=False)
    epochs: tuple[tuple[EpochId, bytes], ...] = field(repr=False)
    epoch: EpochId
    session: SessionId
    entries: tuple[Entry, ...]
    modules: tuple[tuple[Sha256, Ref], ...] = ()


def seal_letter(letter: Letter, seed: bytes, readers: Sequence[bytes], *, secret: bytes, key: bytes) -> bytes:
    """Return the letter sealed to the Ed25519 keys `readers`; `secret` and `key`: 32 random bytes each, used once."""
    assert 0 < len(readers) <= SYNC_LETTER_READERS_MAX and letter.by == device_id(public_key(seed))
    message = _encoded(letter)
    plain = encode([message, sign(seed, PURPOSE, message)])
    ephemeral = sodium.crypto_scalarmult_base(secret)
    head = bytes((VERSION, len(readers))) + ephemeral
    for reader in readers:
        target = sodium.crypto_sign_ed25519_pk_to_curve25519(reader)
        one_use = derive(sodium.crypto_scalarmult(secret, target), PURPOSE, ephemeral + target)
        head += seal(one_use, _ONE_USE_NONCE, key)
    raw = head + seal(key, _ONE_USE_NONCE, plain, ad=head)
    assert len(raw) <= SYNC_LETTER_BYTES_MAX
    return raw


def letter_name(raw: bytes) -> bytes:
    """Return the name of a sealed letter: its SHA-256."""
    return hashlib.sha256(raw).digest()


def open_letter(raw: bytes, seed: bytes, public_of: dict[DeviceId, bytes]) -> Letter | None:
    """Return the letter; None where it is sealed to others. `public_of`: the keys of full members.

    Raises FormatError for what is no letter, or was not signed by one of those.
    """
    if len(raw) > SYNC_LETTER_BYTES_MAX or len(raw) < 2 + 32:
        raise FormatError("a letter is too long, or cut short")
    if raw[0] > VERSION:
        raise NewerVersionError("a letter is of a newer version than this program knows")
    begin = 34 + raw[1] * _SLOT_BYTES
    if raw[0] != VERSION or not raw[1] or len(raw) < begin:
        raise FormatError("a letter is not in its form")
    key = _content_key(raw, seed)
    if key is None:
        return None
    plain = unseal(key, _ONE_USE_NONCE, raw[begin:], ad=raw[:begin])
    match decode(plain, bytes_max=SYNC_LETTER_BYTES_MAX):
        case [bytes(message), bytes(signature)]:
            letter = _decoded(message)
            if letter.by not in public_of:
                raise SealError("a letter is signed by no full member")
            verify(public_of[letter.by], PURPOSE, message, signature)
            return letter
    raise FormatError("a letter is not in its form")


def _content_key(raw: bytes, seed: bytes) -> bytes | None:
    ephemeral = raw[2:34]
    public, secret = sodium.crypto_sign_seed_keypair(seed)
    target = sodium.crypto_sign_ed25519_pk_to_curve25519(public)
    try:
        shared = sodium.crypto_scalarmult(sodium.crypto_sign_ed25519_sk_to_curve25519(secret), ephemeral)
    except (CryptoError, RuntimeError) as error:
        raise FormatError("a letter's ephemeral key is not one") from error
    one_use = derive(shared, PURPOSE, ephemeral + target)
    for at in range(34, 34 + raw[1] * _SLOT_BYTES, _SLOT_BYTES):
        try:
            return unseal(one_use, _ONE_USE_NONCE, raw[at : at + _SLOT_BYTES])
        except SealError:
            continue
    return None


def _encoded(letter: Letter) -> bytes:
    epochs: list[Value] = [[epoch, key] for epoch, key in letter.epochs]
    entries: list[Value] = [[one.raw, one.payload, one.thinned] for one in letter.entries]
    modules: list[Value] = [[digest, ref.name, ref.epoch] for digest, ref in letter.modules]
    fields: list[Value] = [VERSION, letter.by, letter.family, letter.page_key, epochs, letter.epoch, letter.session]
    return encode([*fields, entries, modules])


def _decoded(message: bytes) -> Letter:
    match decode(message, bytes_max=SYNC_LETTER_BYTES_MAX):
        case [
            1,
            bytes(by),
            bytes(family),
            bytes(page_key),
            list(epochs),
            bytes(epoch),
            bytes(session),
            list(entries),
            list(modules),
        ] if (len(by), len(family), len(page_key), len(epoch), len(session)) == (32, 16, 32, 32, 32):
            return Letter(
                by=DeviceId(by),
                family=FamilyId(family),
                page_key=page_key,
                epochs=tuple(_pair(one) for one in epochs),
                epoch=EpochId(epoch),
                session=SessionId(StatementId(session)),
                entries=tuple(_entry(one) for one in entries),
                modules=tuple(_module(one) for one in modules),
            )
    raise FormatError("a letter is not in its form")


def _pair(value: Value) -> tuple[EpochId, bytes]:
    match value:
        case [bytes(epoch), bytes(key)] if len(epoch) == len(key) == 32:
            return EpochId(epoch), key
    raise FormatError("a key in a letter is not in its form")


def _entry(value: Value) -> Entry:
    match value:
        case [bytes(raw), None | bytes() as payload, bool(thinned)] if len(raw) <= STATEMENT_BYTES_MAX:
            return Entry(raw=raw, payload=payload, thinned=thinned)
    raise FormatError("a statement in a letter is not in its form")


def _module(value: Value) -> tuple[Sha256, Ref]:
    match value:
        case [bytes(digest), bytes(name), bytes(epoch)] if len(digest) == len(name) == len(epoch) == 32:
            return Sha256(digest), Ref(name=ObjectName(name), epoch=EpochId(epoch))
    raise FormatError("a module in a letter is not in its form")
