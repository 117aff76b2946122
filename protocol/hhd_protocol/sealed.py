"""A sealed capsule: a file that one device, or who knows a passphrase, can open (`protocol/spec/sealed-capsule.md`).

A random file key seals the content in chunks, and the *lock* in front holds that key: in a box for one device
(X25519 with a one-use sender key) or in one for a passphrase (Argon2id). Each chunk's nonce says which chunk it is and
whether it is the last, and each is bound to head and lock, so none can be cut off, moved, or put into another file.

The sender signs, inside the seal: who opens the file learns which device made it, and can tell a device of their own
from a stranger; who cannot open it learns nothing of the sender. The signature covers the lock, so whoever was sent a
capsule cannot pass the signed content on as if it had been sealed to somebody else.

What comes from outside is hostile: every length is compared with its bound before anything is allocated, and the work
that a file may ask of Argon2id is bounded too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import nacl.bindings as sodium
from nacl.exceptions import CryptoError

from hhd_protocol import codec
from hhd_protocol import limits as bounds
from hhd_protocol.capsule import HEAD_BYTES, MAGIC, SEALED, VERSION, is_sealed
from hhd_protocol.crypto import (
    KEY_BYTES,
    NONCE_BYTES,
    SIGNATURE_BYTES,
    TAG_BYTES,
    SealError,
    derive,
    device_id,
    public_key,
    seal,
    sign,
    unseal,
    verify,
)
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import DeviceId

Buffer = bytes | memoryview

LOCK_VERSION = 1
TO_DEVICE, BY_PASSPHRASE = 0, 1
SALT_BYTES = 16
OPERATIONS = 3
MEMORY_BYTES = 256 * 1024 * 1024
"""What our own passphrases cost to try: libsodium's middle choice, 0.7 s and 256 MiB on a laptop."""
SENDER_BYTES = KEY_BYTES + SIGNATURE_BYTES
"""What stands before the content: the sender's public key and signature."""

_BOX_BYTES = KEY_BYTES + TAG_BYTES
_ONE_USE_NONCE = bytes(NONCE_BYTES)
_KIND = "sealed-capsule"


@dataclass(frozen=True, kw_only=True)
class ToDevice:
    """The file key in a box that the device `to` opens; `ephemeral` is the X25519 key that was made for it alone."""

    to: DeviceId
    ephemeral: bytes
    box: bytes = b""


@dataclass(frozen=True, kw_only=True)
class ByPassphrase:
    """The file key in a box that a passphrase opens, at the cost of `operations` passes over `memory_bytes`."""

    salt: bytes
    operations: int
    memory_bytes: int
    box: bytes = b""


Lock = ToDevice | ByPassphrase


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What was sealed, and the public key of the device whose signature it bears."""

    content: memoryview
    by_public: bytes

    @property
    def by(self) -> DeviceId:
        """The device that sealed it."""
        return device_id(self.by_public)


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A sealed file whose head and lock hold; nothing of its content is known yet."""

    lock: Lock
    chunks: memoryview
    binding: bytes

    def open_as(self, seed: bytes) -> Opened:
        """Open it as the device of `seed`.

        Raises FormatError, whose message is one clause about the file: for another device, or damaged.
        """
        if not isinstance(self.lock, ToDevice):
            raise SealError("it is sealed with a passphrase, not to a device")
        public = public_key(seed)
        if self.lock.to != device_id(public):
            raise SealError("it is sealed to another device")
        _, secret = sodium.crypto_sign_seed_keypair(seed)
        target = sodium.crypto_sign_ed25519_pk_to_curve25519(public)
        try:
            shared = sodium.crypto_scalarmult(sodium.crypto_sign_ed25519_sk_to_curve25519(secret), self.lock.ephemeral)
        except (CryptoError, RuntimeError) as error:
            raise SealError("it was sealed under a key that is none") from error
        return self._opened(_device_key(shared, self.lock.ephemeral, target), "its lock does not open: it is damaged")

    def open_with(self, passphrase: bytes) -> Opened:
        """Open it with `passphrase`, exactly these bytes; takes the time and memory that the lock names, in bounds.

        Raises FormatError, whose message is one clause: another passphrase, or damaged.
        """
        if not isinstance(self.lock, ByPassphrase):
            raise SealError("it is sealed to a device, so no passphrase opens it")
        _insist_on_passphrase(passphrase)
        return self._opened(_passphrase_key(passphrase, self.lock), "the passphrase is not the one it was sealed with")

    def _opened(self, key: bytes, otherwise: str) -> Opened:
        try:
            file_key = unseal(key, _ONE_USE_NONCE, self.lock.box, ad=_lock_ad(self.lock))
        except SealError as error:
            raise SealError(otherwise) from error
        whole = self._unsealed(file_key)
        public, mark, content = bytes(whole[:KEY_BYTES]), bytes(whole[KEY_BYTES:SENDER_BYTES]), whole[SENDER_BYTES:]
        try:
            verify(public, _KIND, _signed(self.binding, sha256(content).digest()), mark)
        except SealError as error:
            raise SealError("it does not bear the signature of the device that it names") from error
        return Opened(content=content, by_public=public)

    def _unsealed(self, file_key: bytes) -> memoryview:
        count, stride = _chunks_in(len(self.chunks)), bounds.SEALED_CHUNK_BYTES + TAG_BYTES
        whole = memoryview(bytearray(len(self.chunks) - count * TAG_BYTES))
        for number in range(count):
            piece = bytes(self.chunks[number * stride : (number + 1) * stride])
            at = number * bounds.SEALED_CHUNK_BYTES
            try:
                whole[at : at + len(piece) - TAG_BYTES] = unseal(
                    file_key, _nonce(number, last=number == count - 1), piece, ad=self.binding
                )
            except SealError as error:
                raise SealError("it is damaged: a part of it is not what was sealed") from error
        return whole.toreadonly()


def seal_to_device(
    content: Sequence[Buffer], *, to_public: bytes, by_seed: bytes, file_key: bytes, ephemeral_secret: bytes
) -> Iterator[bytes]:
    """Yield the sealed file of `content`, buffers end to end, in parts.

    `file_key` and `ephemeral_secret` are 32 random bytes each, used this once. Raises FormatError where `to_public` is
    no key of a device, or the content is empty or too large.
    """
    try:
        target = sodium.crypto_sign_ed25519_pk_to_curve25519(to_public)
        shared = sodium.crypto_scalarmult(ephemeral_secret, target)
    except (CryptoError, RuntimeError, TypeError, ValueError) as error:
        raise FormatError("this is not the public key of a device") from error
    ephemeral = sodium.crypto_scalarmult_base(ephemeral_secret)
    bare = ToDevice(to=device_id(to_public), ephemeral=ephemeral)
    box = seal(_device_key(shared, ephemeral, target), _ONE_USE_NONCE, file_key, ad=_lock_ad(bare))
    return _sealed(ToDevice(to=bare.to, ephemeral=ephemeral, box=box), content, file_key, by_seed)


def seal_with_passphrase(
    content: Sequence[Buffer],
    *,
    passphrase: bytes,
    by_seed: bytes,
    file_key: bytes,
    salt: bytes,
    operations: int = OPERATIONS,
    memory_bytes: int = MEMORY_BYTES,
) -> Iterator[bytes]:
    """Yield the sealed file of `content`, buffers end to end, in parts.

    `file_key` (32 bytes) and `salt` (16) are random, used this once. Raises FormatError for a passphrase, a content or
    a cost out of bounds.
    """
    _insist_on_passphrase(passphrase)
    bare = ByPassphrase(salt=salt, operations=operations, memory_bytes=memory_bytes)
    _insist_on_cost(bare)
    box = seal(_passphrase_key(passphrase, bare), _ONE_USE_NONCE, file_key, ad=_lock_ad(bare))
    lock = ByPassphrase(salt=salt, operations=operations, memory_bytes=memory_bytes, box=box)
    return _sealed(lock, content, file_key, by_seed)


def decode(raw: Buffer) -> Sealed:
    """Return the sealed capsule whose whole file is `raw`, still sealed.

    Raises FormatError (TooLargeError, NewerVersionError), whose message is one clause about the file.
    """
    view = memoryview(raw)
    if not is_sealed(view):
        raise FormatError("it is not a sealed capsule of hhd")
    if len(view) > bounds.CAPSULE_BYTES_MAX:
        raise TooLargeError(f"it has {len(view)} bytes, more than the {bounds.CAPSULE_BYTES_MAX} a capsule may have")
    if len(view) < HEAD_BYTES:
        raise FormatError("it is cut short")
    lock_bytes, total = int.from_bytes(view[16:24], "big"), int.from_bytes(view[24:32], "big")
    if len(view) < total <= bounds.CAPSULE_BYTES_MAX:
        raise FormatError(f"it is cut short: {len(view)} of {total} bytes are there")
    if total != len(view):
        raise FormatError(f"it says to have {total} bytes and has {len(view)}")
    if lock_bytes > min(bounds.LOCK_BYTES_MAX, len(view) - HEAD_BYTES):
        raise FormatError("its lock passes its bound or its end")
    lock = bytes(view[HEAD_BYTES : HEAD_BYTES + lock_bytes])
    binding = sha256(bytes(view[:32]) + lock).digest()
    if binding != view[32:HEAD_BYTES]:
        raise FormatError("it is damaged: its head and lock are not the ones their digest names")
    chunks = view[HEAD_BYTES + lock_bytes :]
    _chunks_in(len(chunks))
    return Sealed(lock=_lock(lock), chunks=chunks, binding=binding)


def _sealed(lock: Lock, content: Sequence[Buffer], file_key: bytes, by_seed: bytes) -> Iterator[bytes]:
    inner = SENDER_BYTES + sum(len(part) for part in content)
    if inner == SENDER_BYTES:
        raise FormatError("there is nothing to seal")
    count = -(-inner // bounds.SEALED_CHUNK_BYTES)
    front = codec.encode([*_lock_fields(lock), lock.box])
    total = HEAD_BYTES + len(front) + inner + count * TAG_BYTES
    if total > bounds.CAPSULE_BYTES_MAX:
        raise TooLargeError(f"the sealed capsule of {total} bytes passes the bound of {bounds.CAPSULE_BYTES_MAX}")
    start = MAGIC + VERSION.to_bytes(4, "big") + SEALED.to_bytes(4, "big")
    start += len(front).to_bytes(8, "big") + total.to_bytes(8, "big")
    binding = sha256(start + front).digest()
    digest = sha256()
    for part in content:
        digest.update(part)
    sender = public_key(by_seed) + sign(by_seed, _KIND, _signed(binding, digest.digest()))
    return _parts(start + binding + front, (sender, *content), count, file_key, binding)


def _parts(front: bytes, inner: Iterable[Buffer], count: int, file_key: bytes, binding: bytes) -> Iterator[bytes]:
    yield front
    for number, chunk in enumerate(_cut(inner)):
        yield seal(file_key, _nonce(number, last=number == count - 1), chunk, ad=binding)


def _cut(parts: Iterable[Buffer]) -> Iterator[bytes]:
    """`parts` end to end as chunks of `SEALED_CHUNK_BYTES`, the last one with the rest."""
    held = bytearray()
    for part in parts:
        view = memoryview(part)
        while len(held) + len(view) > bounds.SEALED_CHUNK_BYTES:
            room = bounds.SEALED_CHUNK_BYTES - len(held)
            held += view[:room]
            view = view[room:]
            yield bytes(held)
            held.clear()
        held += view
    if held:
        yield bytes(held)


def _chunks_in(sealed_bytes: int) -> int:
    """How many chunks make up `sealed_bytes`; raises FormatError where no chunks do."""
    stride = bounds.SEALED_CHUNK_BYTES + TAG_BYTES
    count = -(-sealed_bytes // stride)
    if sealed_bytes - count * TAG_BYTES <= SENDER_BYTES or 0 < sealed_bytes % stride <= TAG_BYTES:
        raise FormatError("it is cut short: what it seals is not all there")
    return count


def _nonce(number: int, *, last: bool) -> bytes:
    """Which chunk it is, and whether no other follows: so that none can be moved, dropped or added."""
    return number.to_bytes(NONCE_BYTES - 1, "big") + bytes([last])


def _signed(binding: bytes, digest: bytes) -> bytes:
    return codec.encode([LOCK_VERSION, binding, digest])


def _lock_fields(lock: Lock) -> list[codec.Value]:
    if isinstance(lock, ToDevice):
        return [LOCK_VERSION, TO_DEVICE, lock.to, lock.ephemeral]
    return [LOCK_VERSION, BY_PASSPHRASE, lock.salt, lock.operations, lock.memory_bytes]


def _lock_ad(lock: Lock) -> bytes:
    return codec.encode(_lock_fields(lock))


def _lock(raw: bytes) -> Lock:
    fields = codec.decode(raw, bytes_max=bounds.LOCK_BYTES_MAX)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int or fields[0] < 1:
        raise FormatError("its lock is not a list that begins with its version")
    if fields[0] > LOCK_VERSION:
        raise NewerVersionError("it is sealed in a newer way than this hhd knows")
    match fields:
        case [1, 0, bytes(to), bytes(ephemeral), bytes(box)]:
            if (len(to), len(ephemeral), len(box)) == (32, KEY_BYTES, _BOX_BYTES):
                return ToDevice(to=DeviceId(to), ephemeral=ephemeral, box=box)
        case [1, 1, bytes(salt), int(operations), int(memory_bytes), bytes(box)]:
            numbers = type(operations) is int and type(memory_bytes) is int  # A boolean is an int to Python.
            if numbers and (len(salt), len(box)) == (SALT_BYTES, _BOX_BYTES):
                lock = ByPassphrase(salt=salt, operations=operations, memory_bytes=memory_bytes, box=box)
                _insist_on_cost(lock)
                return lock
    raise FormatError("the fields of its lock are not as its version says")


def _insist_on_cost(lock: ByPassphrase) -> None:
    """Refuse to spend what a hostile file asks: memory and time of the reader's machine."""
    if not 1 <= lock.operations <= bounds.PASSPHRASE_OPERATIONS_MAX:
        raise TooLargeError(f"its passphrase asks for {lock.operations} passes, out of the bounds of hhd")
    if not sodium.crypto_pwhash_argon2id_MEMLIMIT_MIN <= lock.memory_bytes <= bounds.PASSPHRASE_MEMORY_BYTES_MAX:
        raise TooLargeError(f"its passphrase asks for {lock.memory_bytes} bytes of memory, out of the bounds of hhd")


def _insist_on_passphrase(passphrase: bytes) -> None:
    if not 1 <= len(passphrase) <= bounds.PASSPHRASE_BYTES_MAX:
        raise FormatError(f"a passphrase has 1 to {bounds.PASSPHRASE_BYTES_MAX} bytes, and this has {len(passphrase)}")


def _device_key(shared: bytes, ephemeral: bytes, target: bytes) -> bytes:
    return derive(shared, "capsule to device", ephemeral + target)


def _passphrase_key(passphrase: bytes, lock: ByPassphrase) -> bytes:
    try:
        stretched = sodium.crypto_pwhash_alg(
            KEY_BYTES,
            passphrase,
            lock.salt,
            lock.operations,
            lock.memory_bytes,
            sodium.crypto_pwhash_ALG_ARGON2ID13,
        )
    except (CryptoError, MemoryError, RuntimeError) as error:
        raise SealError(f"the {lock.memory_bytes} bytes of memory that its passphrase asks for are not free") from error
    return derive(stretched, "capsule by passphrase")
