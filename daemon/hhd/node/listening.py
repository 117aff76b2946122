"""Where others reach this device: a port that is listened on, and announced, as the person set both last.

Settings that change are followed while links are in use. Another port is taken before the old one is let go, so one
that cannot be had changes nothing; links that came in by the old one end with it, and are made anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hhd.base import log
from hhd.base.errors import RefusedError
from hhd.transports.link import Accept, Listener, Transport


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a person set: the port (None: any will do), and whether to announce and to listen for announcements."""

    port: int | None = None
    multicast: bool = True


class Announces(Protocol):
    """What tells others of the port (`hhd.node.beacon.Beacon`)."""

    async def run(self, port: int, *, multicast: bool) -> None:
        """Announce `port`, until cancelled; 0: nothing is listened on."""


class Listening:
    """`settings` are asked whenever they may have changed, `transport` once one is needed.

    `ending` is called before the last port is given up: what is linked then has no more to be linked for.
    """

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        transport: Callable[[], Transport],
        accept: Accept,
        announces: Announces,
        ending: Callable[[], None],
    ) -> None:
        self._settings, self._transport, self._accept = settings, transport, accept
        self._announces, self._ending = announces, ending
        self._listener: Listener | None = None
        self._open, self._changed = asyncio.Event(), asyncio.Event()
        self.trouble = ""
        """Why nobody gets in, or not where the person said; "": nothing is in the way."""

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Where this device listens now."""
        return () if self._listener is None else self._listener.addresses

    async def port(self) -> int:
        """Return the port on which others reach this device, once that is so; 0 where it cannot be."""
        await self._open.wait()
        return self.addresses[0][1] if self.addresses else 0

    def settings_changed(self) -> None:
        """The settings may be others now."""
        self._changed.set()

    async def run(self) -> None:
        """Listen and announce, until cancelled."""
        try:
            while True:
                chosen = self._settings()
                await self._listen(chosen.port)
                self._open.set()
                await self._announce(chosen)
        finally:
            self._open.clear()
            last, self._listener = self._listener, None
            self._ending()
            if last is not None:
                await last.close()

    async def _listen(self, port: int | None) -> None:
        """Listen at `port`, if that is not where it listens already."""
        if port is not None and port in (at for _, at in self.addresses):
            self.trouble = ""
            return
        try:
            fresh = await self._transport().listen(self._accept)
        except RefusedError as error:  # Others are dialled all the same.
            log.fault("not_listening", error)
            stays = f" It still listens on port {self.addresses[0][1]}." if self.addresses else ""
            self.trouble = f"{error}{stays}"
            return
        self.trouble = ""
        before, self._listener = self._listener, fresh
        if before is not None:
            await before.close()

    async def _announce(self, chosen: Settings) -> None:
        """Announce the port until the settings are others."""
        async with asyncio.TaskGroup() as tasks:
            saying = tasks.create_task(self._announces.run(await self.port(), multicast=chosen.multicast))
            while self._settings() == chosen:
                self._changed.clear()
                await self._changed.wait()
            saying.cancel()
