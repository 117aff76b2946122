"""The part of the daemon that looks after the daemon: tells the service manager how it is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hhd.base.notify import ServiceManager
from hhd.node.service import Verb


class Tending:
    """`manager`: who started this process, and is told when it is ready, alive and ending."""

    def __init__(self, *, manager: ServiceManager) -> None:
        self._manager = manager

    def ready(self) -> None:
        """The daemon listens."""
        self._manager.ready("Listening.")

    def verbs(self) -> Mapping[str, Verb]:
        """As `hhd.node.service.Part`."""
        return {}

    async def run(self) -> None:
        """Say that the loop turns, three times as often as the service manager wants to hear it."""
        while (seconds := self._manager.watchdog_seconds) is not None:
            self._manager.alive()
            await asyncio.sleep(seconds / 3)

    async def stop(self) -> None:
        """The daemon ends what it has begun."""
        self._manager.stopping("Ending what was begun.")
