"""This device's key and the folders of key and store, with nothing imported that a quick command does not need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.paths import data_folder, private_folder
from hhd.identity.key import Identity, key_is_in_file, open_identity
from hhd.store.errors import DamagedStoreError
from hhd.store.note import noted_device
from hhd_protocol.crypto import derive

if TYPE_CHECKING:
    from hhd.base.box import Box


def identity_folder() -> Path:
    """Return where this device's key is."""
    return data_folder() / "identity"


def store_folder() -> Path:
    """Return where the store is."""
    return data_folder() / "store"


def identity(*, repairing: bool = False) -> Identity:
    """Return this device's identity, made now if there never was one; raises LostKeyError."""
    from hhd.base import config
    from hhd.identity.keyring import Keyring

    private_folder(data_folder())
    vault = Keyring() if config.load().identity.keyring else None
    return open_identity(identity_folder(), store_device=_noted(repairing), vault=vault)


def known_identity() -> Identity | None:
    """Return this device's identity if there is a store here, without making anything; raises LostKeyError."""
    noted = noted_device(store_folder())
    if noted is None:
        return None
    if key_is_in_file(identity_folder()):  # The configuration matters to a key elsewhere, or to a new one.
        return open_identity(identity_folder(), store_device=noted)
    return identity()


def own_box(purpose: str) -> Box:
    """Return what seals small files of this device for one purpose; raises LostKeyError."""
    from hhd.base.box import Box

    me = known_identity() or identity()  # The first costs a list of native sessions 8 ms less.
    return Box(derive(me.seed, purpose))


def _noted(repairing: bool) -> str | None:
    try:
        return noted_device(store_folder())
    except DamagedStoreError:
        if not repairing:
            raise
        return None
