"""The part of a daemon that syncs, of one device, with links that a test gives it and no sessions that run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.bench.bench_sync import Idle, Peering, opened
from tests.transports.devices import device_named

from hhd.node.sync.syncing import Syncing
from hhd.store.store import Store


def part_of(
    folder: Path, name: str = "laptop", *, opens: Callable[[], Store] | None = None
) -> tuple[Syncing, Peering, Idle]:
    """The part of the device `name`, whose store is in `folder`; `opens`: opens that in place of who knows where."""
    peers, workers = Peering(name), Idle()
    part = Syncing(
        me=device_named(name),
        peers=peers,
        roll=peers,
        workers=workers,
        opened=opens or (lambda: opened(folder, name)),
        random=os.urandom,
    )
    return part, peers, workers
