"""The cryptography that stored and sent things rest on (`protocol/spec/sealing.md`): pure, nonces are arguments.

XChaCha20-Poly1305 seals, Ed25519 signs, X25519 wraps keys, BLAKE2b derives keys and names content; all of them are
libsodium's by way of PyNaCl, except BLAKE2b, which is the standard library's (same function, a third of the time).
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import nacl.bindings as sodium
from nacl.exceptions import CryptoError

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import DeviceId, EpochId, FamilyId, PageId

KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16
SIGNATURE_BYTES = 64
FAMILY_BYTES = 16
WRAP_VERSION = 1
ED25519, P256 = "ed25519", "p256"
_WRAPPED_BYTES_MAX = 1024
_ONE_USE_NONCE = bytes(NONCE_BYTES)
_keypair = functools.lru_cache(maxsize=8)(sodium.crypto_sign_seed_keypair)
"""Half of a signature's time is making the pair anew; the seed is in this process's memory anyway."""


class SealError(FormatError):
    """Sealed bytes that do not open, or a signature that does not hold: damage, or not from whom it says."""


def seal(key: bytes, nonce: bytes, message: bytes, *, ad: bytes = b"") -> bytes:
    """Return `message` sealed: as many bytes and 16 more. One nonce never seals two messages under one key."""
    return sodium.crypto_aead_xchacha20poly1305_ietf_encrypt(message, ad, nonce, key)


def unseal(key: bytes, nonce: bytes, sealed: bytes, *, ad: bytes = b"") -> bytes:
    """Return what `seal` was given; raises SealError if a bit of `sealed`, `ad`, `nonce` or `key` differs."""
    if len(sealed) < TAG_BYTES:
        raise SealError("the sealed bytes are too short to be whole")
    try:
        return sodium.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, ad, nonce, key)
    except CryptoError as error:
        raise SealError("the seal does not hold: the bytes are damaged, or sealed under another key") from error


def derived_nonce(key: bytes, message: bytes) -> bytes:
    """Return the nonce that belongs to exactly these `message` bytes, for sealing twice to the same result."""
    return hashlib.blake2b(message, digest_size=NONCE_BYTES, key=key, person=b"hhd1.nonce").digest()


def derive(key: bytes, purpose: str, context: bytes = b"") -> bytes:
    """Return a key of 32 bytes for `purpose` (ASCII, no NUL); other purposes or contexts tell nothing of it."""
    message = purpose.encode("ascii") + b"\0" + context
    return hashlib.blake2b(message, digest_size=KEY_BYTES, key=key, person=b"hhd1.derive").digest()


def content_id(key: bytes, kind: bytes, content: bytes | bytearray | memoryview) -> PageId:
    """Return the name of `content` under a family's page-id key; `kind` is one of `sealing.md`, say `b"page"`."""
    return PageId(hashlib.blake2b(content, digest_size=32, key=key, person=b"hhd1." + kind).digest())


def content_ids(key: bytes, kind: bytes, contents: Iterable[bytes | bytearray | memoryview]) -> list[PageId]:
    """Return the `content_id` of each of `contents`: three quarters of the time of one by one."""
    begun = hashlib.blake2b(digest_size=32, key=key, person=b"hhd1." + kind)
    found = []
    for content in contents:
        hashing = begun.copy()
        hashing.update(content)
        found.append(PageId(hashing.digest()))
    return found


def public_key(seed: bytes) -> bytes:
    """Return the Ed25519 public key of a 32-byte `seed`."""
    return _keypair(seed)[0]


def sign(seed: bytes, kind: str, message: bytes) -> bytes:
    """Return the 64-byte Ed25519 signature over `message` as a statement of `kind`."""
    _, secret = _keypair(seed)
    return sodium.crypto_sign(_statement(kind, message), secret)[:SIGNATURE_BYTES]


def verify(public: bytes, kind: str, message: bytes, signature: bytes) -> None:
    """Return if `signature` is `public`'s over `message` as `kind`; raises SealError if not."""
    if len(signature) != SIGNATURE_BYTES or len(public) != KEY_BYTES:
        raise SealError("a signature or its key has the wrong length")
    try:
        sodium.crypto_sign_open(signature + _statement(kind, message), public)
    except CryptoError as error:
        raise SealError("the signature does not hold") from error


def _statement(kind: str, message: bytes) -> bytes:
    return b"hhd1 " + kind.encode("ascii") + b"\0" + message


def device_id(public: bytes, kind: str = ED25519) -> DeviceId:
    """Return the id of the device whose public key this is (Ed25519: 32 bytes; P-256: its DER form)."""
    return DeviceId(hashlib.sha256(b"hhd device " + kind.encode("ascii") + b"\0" + public).digest())


def device_text(device: DeviceId) -> str:
    """Return an id as a person reads it: 13 groups of 4 letters and digits."""
    letters = base64.b32encode(device).decode("ascii").rstrip("=").lower()
    return "-".join(letters[i : i + 4] for i in range(0, len(letters), 4))


def device_from_text(text: str) -> DeviceId:
    """Return the id that `text` spells, with or without its dashes; raises FormatError if it spells none."""
    letters = text.replace("-", "").replace(" ", "").upper()
    try:
        raw = base64.b32decode(letters + "====") if len(letters) == 52 else b""
    except (binascii.Error, ValueError) as error:
        raise FormatError("this is not the id of a device") from error
    if len(raw) != 32 or base64.b32encode(raw).decode("ascii").rstrip("=") != letters:
        raise FormatError("this is not the id of a device")
    return DeviceId(raw)


def agreed_key(seed: bytes, public: bytes, purpose: str) -> bytes:
    """Return the key of 32 bytes that the device of `seed` and the one of `public` both compute, and nobody else.

    It is the same whenever and by whichever of the two it is computed. Raises SealError if `public` is no such key.
    """
    mine, secret = _keypair(seed)
    try:
        target = sodium.crypto_sign_ed25519_pk_to_curve25519(public)
        shared = sodium.crypto_scalarmult(sodium.crypto_sign_ed25519_sk_to_curve25519(secret), target)
    except (CryptoError, RuntimeError, ValueError) as error:
        raise SealError("a public key is none that a device can have") from error
    return derive(shared, purpose, min(mine, public) + max(mine, public))


class WrappedKey(NamedTuple):
    """One key of a family, sealed to one device and signed by the member that wrapped it.

    A named tuple: importing `dataclasses` takes a tenth of `hhd ls`, and everything imports this module.
    `epoch` is None for the page-id key, which is the family's for ever.
    """

    family: FamilyId
    epoch: EpochId | None
    to: DeviceId
    by: DeviceId
    ephemeral: bytes
    box: bytes
    signature: bytes

    def encoded(self) -> bytes:
        """Return the canonical form, signature and all."""
        return encode([*_wrap_fields(self), self.signature])


def wrap(
    key: bytes, *, family: FamilyId, epoch: EpochId | None, to_public: bytes, by_seed: bytes, ephemeral_secret: bytes
) -> WrappedKey:
    """Seal `key` to the Ed25519 key `to_public`; `ephemeral_secret` is 32 random bytes, used this once.

    Raises SealError if `to_public` is no point that a key could be.
    """
    ephemeral = sodium.crypto_scalarmult_base(ephemeral_secret)
    to, by = device_id(to_public), device_id(public_key(by_seed))
    try:
        target = sodium.crypto_sign_ed25519_pk_to_curve25519(to_public)
        shared = sodium.crypto_scalarmult(ephemeral_secret, target)
    except (CryptoError, RuntimeError) as error:
        raise SealError("the key of the target is not one") from error
    one_use = _wrapping_key(shared, ephemeral, target)
    box = seal(one_use, _ONE_USE_NONCE, key, ad=_wrap_ad(family, epoch, to, by))
    bare = WrappedKey(family=family, epoch=epoch, to=to, by=by, ephemeral=ephemeral, box=box, signature=b"")
    signature = sign(by_seed, "wrapped-key", encode(_wrap_fields(bare)))
    return WrappedKey(family=family, epoch=epoch, to=to, by=by, ephemeral=ephemeral, box=box, signature=signature)


def unwrap(wrapped: WrappedKey, *, by_public: bytes, seed: bytes) -> bytes:
    """Return the key that `wrapped` holds for the device of `seed`.

    Raises SealError if it is not signed by `by_public`, not for this device, or damaged.
    """
    if wrapped.by != device_id(by_public):
        raise SealError("the wrapped key names another signer")
    verify(by_public, "wrapped-key", encode(_wrap_fields(wrapped)), wrapped.signature)
    public, secret = _keypair(seed)
    if wrapped.to != device_id(public):
        raise SealError("the wrapped key is for another device")
    target = sodium.crypto_sign_ed25519_pk_to_curve25519(public)
    try:
        shared = sodium.crypto_scalarmult(sodium.crypto_sign_ed25519_sk_to_curve25519(secret), wrapped.ephemeral)
    except (CryptoError, RuntimeError) as error:
        raise SealError("the wrapped key's ephemeral key is not one") from error
    one_use = _wrapping_key(shared, wrapped.ephemeral, target)
    ad = _wrap_ad(wrapped.family, wrapped.epoch, wrapped.to, wrapped.by)
    return unseal(one_use, _ONE_USE_NONCE, wrapped.box, ad=ad)


def decode_wrapped(raw: bytes) -> WrappedKey:
    """Return the wrapped key that `raw` encodes; raises FormatError."""
    fields = decode(raw, bytes_max=_WRAPPED_BYTES_MAX)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise FormatError("a wrapped key is not a list that begins with its version")
    if fields[0] > WRAP_VERSION:
        raise NewerVersionError("a wrapped key is of a newer version than this program knows")
    match fields:
        case [
            1,
            bytes(family),
            None | bytes() as epoch,
            bytes(to),
            bytes(by),
            bytes(ephemeral),
            bytes(box),
            bytes(mark),
        ]:
            lengths = (len(family), 32 if epoch is None else len(epoch), len(to), len(by), len(ephemeral))
            if lengths == (FAMILY_BYTES, 32, 32, 32, 32) and len(box) == KEY_BYTES + TAG_BYTES and len(mark) == 64:
                return WrappedKey(
                    family=FamilyId(family),
                    epoch=None if epoch is None else EpochId(epoch),
                    to=DeviceId(to),
                    by=DeviceId(by),
                    ephemeral=ephemeral,
                    box=box,
                    signature=mark,
                )
    raise FormatError("the fields of a wrapped key are not as its version says")


def _wrap_fields(key: WrappedKey) -> list[Value]:
    return [WRAP_VERSION, key.family, key.epoch, key.to, key.by, key.ephemeral, key.box]


def _wrap_ad(family: FamilyId, epoch: EpochId | None, to: DeviceId, by: DeviceId) -> bytes:
    return encode([WRAP_VERSION, family, epoch, to, by])


def _wrapping_key(shared: bytes, ephemeral: bytes, target: bytes) -> bytes:
    return derive(shared, "wrap", ephemeral + target)
