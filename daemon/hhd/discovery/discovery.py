"""Announces this device on every network it is on, and tells who else is there, as networks come and go.

What is told of others is as anybody on the network may have said it: decoded and bounded, and a hint at most.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hhd.discovery import interfaces
from hhd.discovery.interfaces import Interface
from hhd.discovery.sieve import Sieve
from hhd.discovery.sightings import Heard, Sightings
from hhd_protocol.announcement import NONCE_BYTES, PADDED_TO, TAG_BYTES, Announcement, decoded
from hhd_protocol.errors import FormatError

if TYPE_CHECKING:
    from hhd.discovery.mdns import Mdns

log = logging.getLogger("hhd.discovery")

RESTART_SECONDS_MIN = 2.0
"""Between two restarts: a host of containers changes its interfaces by the second."""
RETRY_SECONDS = 60.0
"""Where multicast DNS could not begin."""

Said = Callable[[bytes, bytes], Announcement | None]
"""Makes what is announced of a name and filler (`hhd_protocol.announcement`); None: nothing is announced."""


@dataclass(frozen=True, kw_only=True)
class Ears:
    """Who is told: of another's announcement with port and addresses, of one that is gone, of other networks."""

    heard: Callable[[Announcement, int, tuple[str, ...]], None]
    gone: Callable[[bytes], None]
    moved: Callable[[tuple[Interface, ...]], None]


class Discovery:
    """Announces `said` at `port`; with `multicast` False it only follows the interfaces."""

    def __init__(
        self,
        *,
        said: Said,
        ears: Ears,
        random: Callable[[int], bytes],
        multicast: bool = True,
        usable: Callable[[], tuple[Interface, ...]] = interfaces.usable,
    ) -> None:
        self._said, self._ears, self._random, self._multicast, self._usable = said, ears, random, multicast, usable
        self.interfaces: tuple[Interface, ...] = ()
        self.trouble = ""
        """Why nobody is found by multicast, for showing; "": nothing is in the way."""
        self.port = 0
        self._poked = asyncio.Event()
        self._anew = self._resay = False
        self._mdns: Mdns | None = None
        self._name = self._filler = b""
        self._told: Announcement | None = None
        self._calm_at = 0.0
        self._sightings = Sightings()
        self._timer: asyncio.TimerHandle | None = None
        self._sieve = Sieve(asyncio.get_running_loop().time)

    def say_again(self) -> None:
        """What is to be announced may have changed."""
        self._resay = True
        self._poked.set()

    def begin_anew(self) -> None:
        """The device woke, or others are to be looked for: everybody is asked again, and told again."""
        self._anew = True
        self._poked.set()

    async def run(self) -> None:
        """Until cancelled."""
        watch = interfaces.Watch()
        try:
            while True:
                await self._once()
                await self._stirred(watch)
        finally:
            watch.close()
            if self._timer is not None:
                self._timer.cancel()
            if self._mdns is not None:
                await self._mdns.close(farewell=True)

    async def _stirred(self, watch: interfaces.Watch) -> None:
        waits = [asyncio.ensure_future(self._stirred_and_calm(watch)), asyncio.ensure_future(self._poked.wait())]
        try:
            await asyncio.wait(
                waits,
                timeout=RETRY_SECONDS if self.trouble else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for one in waits:
                one.cancel()
        if self.trouble:
            self._anew = True

    async def _stirred_and_calm(self, watch: interfaces.Watch) -> None:
        await watch.stirred()
        await asyncio.sleep(max(0.0, self._calm_at - asyncio.get_running_loop().time()))

    async def _once(self) -> None:
        anew, resay = self._anew, self._resay
        self._anew = self._resay = False
        self._poked.clear()
        try:
            found = self._usable()
        except OSError as error:  # As many files are open as may be: what is known stays until that is over.
            self.trouble = f"the networks cannot be looked at ({error.strerror or error})"
            return
        if found != self.interfaces or self._mdns is None or anew:
            moved = found != self.interfaces
            renamed = self._renamed()
            if not self._name or not _lasting(found) & _lasting(self.interfaces):
                self._rename()  # On another network, who watches both must not see the same device.
            self.interfaces = found
            if moved:
                self._ears.moved(found)
            await self._restart(farewell=renamed)
            self._calm_at = asyncio.get_running_loop().time() + RESTART_SECONDS_MIN
        elif resay and self._renamed():
            await self._announce()

    def _renamed(self) -> bool:
        """Whether something else is to be said than what was said last, which then takes another name.

        Who listens keeps what a name said, takes nothing for new that it knows already, and may hear an old answer
        late (RFC 6762, sections 6 and 10.2): a name whose word changes back and forth would be misunderstood.
        """
        if self._said(self._name, self._filler) == self._told:
            return False
        self._rename()
        return True

    def _rename(self) -> None:
        self._name, self._filler = self._random(NONCE_BYTES), self._random(TAG_BYTES * PADDED_TO)

    async def _restart(self, *, farewell: bool) -> None:
        before, self._mdns, self.trouble = self._mdns, None, ""
        if before is not None:
            await before.close(farewell=farewell)
        if not self._multicast:
            return
        if not self.interfaces:
            self.trouble = "no network is there"
            return
        from hhd.discovery.mdns import Mdns

        try:
            self._mdns = Mdns(self.interfaces, heard=self._heard, gone=self._gone, sieve=self._sieve)
            await self._mdns.browse()
            await self._announce()
        except OSError as error:
            self.trouble = f"multicast DNS cannot be used here ({error.strerror or error})"
            log.warning("%s", self.trouble)
            if self._mdns is not None:
                await self._mdns.close(farewell=False)
                self._mdns = None

    async def _announce(self) -> None:
        if self._mdns is not None:
            self._told = self._said(self._name, self._filler)
            await self._mdns.announce(self._told, self.port)

    def _heard(self, label: str, said: Heard) -> None:
        now = asyncio.get_running_loop().time()
        if self._sightings.heard(label, said, now):
            self._look(label, said)
        elif self._timer is None:
            self._set_timer()

    def _look(self, label: str, said: Heard) -> None:
        try:
            announcement = decoded(label, said.properties)
        except FormatError:
            return  # Another version, or somebody else's idea of this service.
        if announcement.nonce == self._name:
            return
        if not self._sightings.is_late(label, asyncio.get_running_loop().time()):
            self._ears.heard(announcement, said.port, said.addresses)
            return
        # A code that was closed is not shown again by it. That it is a place to try costs little, and the farewell may
        # have been forged: so it is told, and told to be gone.
        self._ears.heard(announcement._replace(pairing=False), said.port, said.addresses)
        self._ears.gone(announcement.nonce)

    def _set_timer(self) -> None:
        loop, due = asyncio.get_running_loop(), self._sightings.deadline()
        self._timer = None if due is None else loop.call_at(due, self._look_at_due)

    def _look_at_due(self) -> None:
        for label, said in self._sightings.due(asyncio.get_running_loop().time()):
            self._look(label, said)
        self._set_timer()

    def _gone(self, label: str) -> None:
        self._sightings.gone(label, asyncio.get_running_loop().time())
        if len(label) == 2 * NONCE_BYTES:
            try:
                self._ears.gone(bytes.fromhex(label))
            except ValueError:
                return


def _lasting(found: tuple[Interface, ...]) -> set[str]:
    return {address for one in found for address in one.addresses if not ipaddress.ip_address(address).is_link_local}
