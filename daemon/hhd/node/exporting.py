"""A session as a capsule: a copy of it at one checkpoint, plain or sealed, that carries no right to advance it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.base.errors import RefusedError
from hhd.base.files import Buffer
from hhd.identity.key import Identity
from hhd.node import sealed_file, sessions
from hhd.store.store import Store
from hhd_protocol import capsule
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, SessionId


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Who can open a capsule: the device with the Ed25519 key `to_public`, or, without one, who knows `passphrase`."""

    to_public: bytes | None = None
    passphrase: bytes | None = None

    def __repr__(self) -> str:
        return f"Seal({'passphrase' if self.to_public is None else 'device'})"


def exported(
    store: Store, me: Identity, session: SessionId, checkpoint: CheckpointId, seal: Seal | None, *, embed: bool
) -> Iterable[Buffer]:
    """Return the file of `session` as it was at `checkpoint`, in parts.

    Raises RefusedError where it passes the bounds of a capsule; ThinnedError, DamagedStoreError.
    """
    value = sessions.loaded(store, session, checkpoint, embed=embed)
    try:
        parts = capsule.encode(value)
    except FormatError as error:
        raise RefusedError(f"No capsule was made: {error}.") from error
    if seal is None:
        return parts
    return sealed_file.sealed_parts(parts, seed=me.seed, to_public=seal.to_public, passphrase=seal.passphrase)
