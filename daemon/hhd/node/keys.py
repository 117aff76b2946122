"""Keys that one full member gives another: of families of sessions, and of the shared document (`group.md`, Keys).

Nothing is sealed anew. Who was revoked is given nothing more; what it had been given it may have kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node.group import Membership
from hhd.node.members import Member
from hhd.store.families import Family
from hhd.store.store import Store
from hhd_protocol.crypto import SealError, WrappedKey, decode_wrapped, unwrap, wrap
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, EpochId, FamilyId
from hhd_protocol.statements import Role

SHARED = FamilyId(bytes(16))
"""Stands for the shared document where a wrapped key names a family; no family is drawn as zeros."""


@dataclass(frozen=True, kw_only=True)
class FamilyKeys:
    """The keys of one family, wrapped to one device: encoded `WrappedKey`s; `epoch` is sealed under now."""

    family: FamilyId
    epoch: EpochId
    wrapped: tuple[bytes, ...] = field(repr=False)


def of_family(store: Store, me: Identity, family: FamilyId, to: DeviceId, known: Sequence[EpochId] = ()) -> FamilyKeys:
    """Return the keys of `family` for `to`, without the epochs that it is `known` to have.

    Raises RefusedError where one of the two is no full member now, MissingError.
    """
    target = _full(store, me, to)
    keys: Family = store.families.get(family)
    wrapped = keys.wrapped(target.public, me.seed, store.random)
    kept = [one.encoded() for one in wrapped if one.epoch is None or one.epoch not in known]
    return FamilyKeys(family=family, epoch=keys.epoch, wrapped=tuple(kept))


def accept(store: Store, me: Identity, by: DeviceId, keys: FamilyKeys) -> Family:
    """Keep keys that `by` wrapped for this device.

    Raises FormatError where they are not what they say, RefusedError where one of the two is no full member now,
    MissingError where not all that is needed came.
    """
    sender = _full(store, me, by)
    if not keys.wrapped:
        raise FormatError("no keys came")
    wrapped = [decode_wrapped(raw) for raw in keys.wrapped]
    if any(one.family != keys.family or keys.family == SHARED for one in wrapped):
        raise FormatError("a key is of another family than the one it came for")
    with store.transaction():
        return store.families.accept(wrapped, by_public=sender.public, seed=me.seed, current=keys.epoch)


def of_shared(store: Store, me: Identity, to: DeviceId) -> bytes:
    """Return the key of the shared document, wrapped to `to`; raises RefusedError as `of_family`."""
    target = _full(store, me, to)
    key = store.shared.key()
    ephemeral = store.random(32)
    return wrap(
        key, family=SHARED, epoch=None, to_public=target.public, by_seed=me.seed, ephemeral_secret=ephemeral
    ).encoded()


def accept_shared(store: Store, me: Identity, by: DeviceId, raw: bytes) -> bool:
    """Seal the shared document under the key that `by` gave; False if it is under that one already.

    Raises as `accept`.
    """
    sender = _full(store, me, by)
    wrapped: WrappedKey = decode_wrapped(raw)
    if wrapped.family != SHARED or wrapped.epoch is not None:
        raise SealError("the key is not that of the shared document")
    return store.shared.seal_under(unwrap(wrapped, by_public=sender.public, seed=me.seed))


def _full(store: Store, me: Identity, other: DeviceId) -> Member:
    """The other one, if both are full members now."""
    members = Membership(store, me).members()
    for device in (me.id, other):
        if device not in members or members[device].role is not Role.FULL:
            raise RefusedError("Keys are given by full members to full members only; nothing was given.")
    return members[other]
