"""Sync with the other devices: the part of the daemon, made of what this device has; and asking it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.identity.key import Identity
    from hhd.node.peers import Peers
    from hhd.node.syncing import Syncing
    from hhd.node.workers import Workers
    from hhd.store.store import Store


def part(me: Identity, peers: Peers, workers: Workers) -> Syncing:
    """Make the part; the store is opened once there is something to do."""
    import os

    from hhd.base import config
    from hhd.node import frugal, store
    from hhd.node.syncing import Syncing

    chosen = config.load().sync

    def opened() -> Store:
        from hhd.store.store import Store

        return Store.open(store.store_folder(), seed=me.seed, limits=store.limits())

    return Syncing(
        me=me,
        peers=peers,
        members=peers.roll,
        workers=workers,
        opened=opened,
        random=os.urandom,
        frugal=frugal.Frugal(battery=chosen.spare_battery).why,
        session_bytes_max=chosen.session_bytes_max or None,
    )
