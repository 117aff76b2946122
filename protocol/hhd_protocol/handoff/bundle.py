"""What a release file holds: a session whole at one checkpoint, with the signed release (`protocol/spec/handoff.md`).

The file is sealed to the target and signed by the source (`hhd_protocol.sealed`); this is what the seal holds. All of
it is hostile until the store has compared it with what is signed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.crypto import WrappedKey
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.handoff.messages import ID_BYTES
from hhd_protocol.ids import DeviceId, EpochId, FamilyId, ObjectName
from hhd_protocol.limits import (
    HANDOFF_FILE_HEAD_BYTES_MAX,
    HANDOFF_FILE_KEYS_MAX,
    MODULE_BYTES_MAX,
    STATEMENT_BYTES_MAX,
)
from hhd_protocol.packed import Packed, parse

MAGIC = b"hhd release\x00\x00\x00\x00\x01"
FAMILY_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A release with what it takes to go on from it.

    `release`: signed. `statements`: the session's others, signed. `checkpoint`: the row of the head that the release
    names (`store.md`). `family`, `keys`, `epoch`: its keys, wrapped for the target, and the epoch in use. `module`: the
    program, packed; None for one that comes with hhd. `objects`: sealed, all that the head needs.
    """

    release: bytes
    statements: tuple[bytes, ...]
    checkpoint: bytes
    family: FamilyId
    keys: tuple[WrappedKey, ...]
    epoch: EpochId
    module: Packed | None
    objects: tuple[bytes, ...]


def encode_bundle(bundle: Bundle) -> Iterator[bytes]:
    """Yield the bytes of `bundle` in parts; raises TooLargeError where a bound is passed."""
    objects: list[Value] = [[sha256(one).digest(), len(one)] for one in bundle.objects]
    keys: list[Value] = [[key.epoch, key.to, key.by, key.ephemeral, key.box, key.signature] for key in bundle.keys]
    head = encode(
        [
            bundle.release,
            list(bundle.statements),
            bundle.checkpoint,
            bundle.family,
            keys,
            bundle.epoch,
            None if bundle.module is None else [*_list(bundle.module.value()), bytes(bundle.module.stored)],
            objects,
        ]
    )
    if len(head) > HANDOFF_FILE_HEAD_BYTES_MAX:
        raise TooLargeError(f"what a release file says of the session has {len(head)} bytes")
    yield MAGIC + len(head).to_bytes(8, "big") + head
    yield from bundle.objects


def is_bundle(raw: bytes | memoryview) -> bool:
    """Whether this is what a release file holds, of any version."""
    return bytes(raw[:12]) == MAGIC[:12]


def decode_bundle(raw: bytes | memoryview) -> Bundle:
    """Return the bundle that `raw` is; raises FormatError (TooLargeError, NewerVersionError).

    Each object is found to have the name that the head gives it; what they hold is not looked at.
    """
    view = memoryview(raw)
    if not is_bundle(view) or len(view) < len(MAGIC) + 8:
        raise FormatError("it holds no release of a session")
    version = int.from_bytes(view[12:16], "big")
    if version != 1:
        kind = NewerVersionError if version > 1 else FormatError
        raise kind(f"it is a release of version {version}; this hhd knows 1")
    begin, size = len(MAGIC) + 8, int.from_bytes(view[16:24], "big")
    if size > min(HANDOFF_FILE_HEAD_BYTES_MAX, len(view) - begin):
        raise TooLargeError("its head passes its bound or its end")
    match decode(bytes(view[begin : begin + size]), bytes_max=HANDOFF_FILE_HEAD_BYTES_MAX):
        case [
            bytes(release),
            list(statements),
            bytes(checkpoint),
            bytes(family),
            list(keys),
            bytes(epoch),
            module,
            list(objects),
        ] if len(family) == FAMILY_BYTES and len(epoch) == ID_BYTES and len(keys) <= HANDOFF_FILE_KEYS_MAX:
            return Bundle(
                release=_at_most(release, STATEMENT_BYTES_MAX),
                statements=tuple(_at_most(one, STATEMENT_BYTES_MAX) for one in statements),
                checkpoint=checkpoint,
                family=FamilyId(family),
                keys=tuple(_key(FamilyId(family), one) for one in keys),
                epoch=EpochId(epoch),
                module=None if module is None else _module(module),
                objects=tuple(_objects(view[begin + size :], objects)),
            )
    raise FormatError("its head is not one of a release")


def _key(family: FamilyId, value: Value) -> WrappedKey:
    match value:
        case [epoch, bytes(to), bytes(by), bytes(ephemeral), bytes(box), bytes(signature)]:
            return WrappedKey(
                family=family,
                epoch=None if epoch is None else EpochId(_of(epoch, ID_BYTES)),
                to=DeviceId(_of(to, ID_BYTES)),
                by=DeviceId(_of(by, ID_BYTES)),
                ephemeral=_of(ephemeral, 32),
                box=_at_most(box, 256),
                signature=_of(signature, 64),
            )
    raise FormatError("a key in it is none")


def _list(value: Value) -> list[Value]:
    assert isinstance(value, list)
    return value


def _module(value: Value) -> Packed:
    match value:
        case [*said, bytes(stored)]:
            length, raw, digest = parse(said, "the program", MODULE_BYTES_MAX)
            if len(stored) == length:
                return Packed(stored=stored, raw_bytes=raw, digest=digest)
    raise FormatError("the program in it is none")


def _objects(rest: memoryview, named: list[Value]) -> Iterator[bytes]:
    at = 0
    for one in named:
        match one:
            case [bytes(name), int(size)] if type(size) is int and 0 <= size <= len(rest) - at:
                found = bytes(rest[at : at + size])
                if ObjectName(sha256(found).digest()) != name:
                    raise FormatError("an object in it is not the one that its name says")
                at += size
                yield found
            case _:
                raise FormatError("an object in it passes its end")
    if at != len(rest):
        raise FormatError("there is more in it than it names")


def _of(value: Value, length: int) -> bytes:
    if not isinstance(value, bytes) or len(value) != length:
        raise FormatError("an id or a key in it has another length")
    return value


def _at_most(value: Value, length: int) -> bytes:
    if not isinstance(value, bytes) or len(value) > length:
        raise FormatError("something in it is no byte string, or passes its bound")
    return value
