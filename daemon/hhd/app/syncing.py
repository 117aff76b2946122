"""Sync with the other devices: the part of the daemon, made of what this device has; and asking it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hhd.app import peering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hhd.identity.key import Identity
    from hhd.node.answers.syncing import Followed, FreshnessOf, Syncings
    from hhd.node.peers import Peers
    from hhd.node.sync.syncing import Syncing
    from hhd.node.workers import Workers
    from hhd.store.store import Store


def part(me: Identity, peers: Peers, workers: Workers) -> Syncing:
    """Make the part; the store is opened once there is something to do."""
    import os

    from hhd.base import config
    from hhd.node import frugal, store
    from hhd.node.sync.syncing import Syncing

    chosen = config.load().sync

    def opened() -> Store:
        from hhd.store.store import Store

        opened = Store.open(store.store_folder(), seed=me.seed, limits=store.limits())
        try:
            opened.database.lengthen_log()  # Where there is something to sync, a session is at work, here or elsewhere.
        except BaseException:
            opened.close()  # One that stays open keeps a repair out.
            raise
        return opened

    made = Syncing(
        me=me,
        peers=peers,
        roll=peers.roll,
        workers=workers,
        opened=opened,
        random=os.urandom,
        frugal=frugal.Frugal(battery=chosen.spare_battery, metered=chosen.spare_metered).why,
        session_bytes_max=chosen.session_bytes_max or None,
    )
    made.heard_from.append(workers.others_answered)
    return made


def status() -> Syncings:
    """How it stands; raises RefusedError where no daemon runs."""
    from hhd.node.answers.syncing import Syncings

    with peering.asking() as daemon:
        return daemon.ask("sync_status", Syncings, changes=False)


def gone_over() -> Callable[[], tuple[int, int]]:
    """Return what says, each time it is asked, how many bytes went over since the first time, and of how many."""
    begun: list[tuple[int, int]] = []

    def asked() -> tuple[int, int]:
        flows = [flow for flow in status().flows if flow.linked]
        done = sum((flow.sent or 0) + (flow.received or 0) for flow in flows)
        left = sum(flow.bytes for flow in flows)
        if not begun:
            begun.append((done, left))
        return done - begun[0][0], begun[0][1]

    return asked


def watch() -> Iterator[Syncings]:
    """The same, whenever it changes."""
    from hhd.node.answers.syncing import Syncings

    with peering.asking() as daemon:
        yield from daemon.stream("sync_watch", Syncings)


def pause(paused: bool) -> Syncings:
    """Take content from others, or none."""
    from hhd.node.answers.syncing import Syncings

    with peering.asking() as daemon:
        return daemon.ask("sync_pause", Syncings, paused=paused)


def freshness(name: str) -> FreshnessOf:
    """Which devices have a session."""
    from hhd.node.answers.syncing import FreshnessOf

    with peering.asking() as daemon:
        return daemon.ask("sync_fresh", FreshnessOf, changes=False, name=name)


def follow(name: str | None, device: str, follow: bool) -> Followed:
    """Let a device have a session (None: every one), or not."""
    from hhd.node.answers.syncing import Followed

    with peering.asking() as daemon:
        return daemon.ask("sync_follow", Followed, name=name, device=device, follow=follow)
