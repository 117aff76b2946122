"""Multicast DNS, by the library zeroconf, which only this file knows; imported when the daemon has somebody to find.

One `Mdns` serves one set of interfaces. When that changes, or the device woke, another one takes its place: sockets and
memberships are all new then, and nothing has to be guessed about what the kernel did to the old ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable, Sequence

from zeroconf import DNSQuestionType, NotRunningException, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo

from hhd.discovery.interfaces import Interface
from hhd.discovery.sieve import Sieve, Sieved
from hhd.discovery.sightings import Heard
from hhd_protocol.announcement import SERVICE, Announcement

HOST_TTL_SECONDS = 120
OTHER_TTL_SECONDS = 4500
"""As RFC 6762, section 10, recommends."""
ASKED_AT_ONCE_MAX = 8
"""Instances whose address or strings did not come along, and are asked for."""
ASKED_MS_MAX = 3000
HEARD_ADDRESSES_MAX = 8
"""Of one instance; of more, the first ones."""
ADDRESSES_ANNOUNCED_MAX = 16


class Mdns:
    """Announces this device and listens for others on `interfaces`; `heard` and `gone` are told of instances."""

    def __init__(
        self,
        interfaces: Sequence[Interface],
        *,
        heard: Callable[[str, Heard], None],
        gone: Callable[[str], None],
        sieve: Sieve,
    ) -> None:
        """Open the sockets; raises OSError where that cannot be."""
        logging.getLogger("zeroconf").setLevel(logging.CRITICAL)  # It warns of every interface that comes or goes.
        self._interfaces, self._heard, self._gone, self._sieve = interfaces, heard, gone, sieve
        try:
            self._zeroconf = Zeroconf(interfaces=_named(interfaces), use_asyncio=True)
        except RuntimeError as error:  # An interface went away since it was asked for.
            raise OSError(str(error)) from error
        self._browser: AsyncServiceBrowser | None = None
        self._info: AsyncServiceInfo | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._saying: set[asyncio.Future[None]] = set()
        self._said_last: asyncio.Future[None] | None = None

    async def browse(self) -> None:
        """Begin to listen, and ask who is there; raises OSError."""
        try:
            await self._zeroconf.async_wait_for_start()
        except (NotRunningException, TimeoutError) as error:
            raise OSError(f"multicast DNS did not start ({error})") from error
        for reader in self._zeroconf.engine.readers:
            transport = reader.transport
            transport.set_protocol(Sieved(self._sieve, transport.get_protocol()))
        self._browser = AsyncServiceBrowser(
            self._zeroconf, SERVICE, handlers=[self._changed], question_type=DNSQuestionType.QM
        )

    async def announce(self, said: Announcement | None, port: int) -> None:
        """Announce this, under another name, instead of what was announced; None: nothing."""
        before = self._info
        self._info = info = None if said is None else self._service(said, port)
        if self._said_last is not None:
            self._said_last.cancel()  # Each word is said several times: none after the farewell.
        if before is not None:
            self._while_open(await self._zeroconf.async_unregister_service(before))
        if info is not None:
            # The name is random: nobody has to be asked whether it is free.
            saying = await self._zeroconf.async_register_service(info, cooperating_responders=True)
            self._said_last = self._while_open(saying)

    async def close(self, *, farewell: bool) -> None:
        """End; with `farewell`, others are told that this device is gone."""
        if self._browser is not None:
            await self._browser.async_cancel()
        for task in [*self._asking.values(), *self._saying]:
            task.cancel()
        if farewell and self._info is not None:
            with contextlib.suppress(OSError):
                self._zeroconf.async_send(self._zeroconf.generate_service_broadcast(self._info, 0))
        self._zeroconf.close()

    def _while_open(self, saying: object) -> asyncio.Future[None]:
        task: asyncio.Future[None] = asyncio.ensure_future(saying)  # type: ignore[call-overload]
        self._saying.add(task)
        task.add_done_callback(self._said)
        return task

    def _said(self, task: asyncio.Future[None]) -> None:
        self._saying.discard(task)
        if not task.cancelled():
            task.exception()  # A network that could not be told is told again when it changes.

    def _service(self, said: Announcement, port: int) -> AsyncServiceInfo:
        addresses = [address for one in self._interfaces for address in one.addresses][:ADDRESSES_ANNOUNCED_MAX]
        return AsyncServiceInfo(
            SERVICE,
            f"{said.label}.{SERVICE}",
            port=port,
            properties=said.properties(),
            server=f"hhd-{said.label}.local.",
            addresses=[
                socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
                for address in addresses
            ],
            host_ttl=HOST_TTL_SECONDS,
            other_ttl=OTHER_TTL_SECONDS,
        )

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        label = name.removesuffix(f".{SERVICE}")
        if self._info is not None and name == self._info.name:
            return
        if state_change is ServiceStateChange.Removed:
            self._gone(label)
            return
        info = AsyncServiceInfo(SERVICE, name)
        if info.load_from_cache(zeroconf):
            self._tell(label, info)
        elif label not in self._asking and len(self._asking) < ASKED_AT_ONCE_MAX:
            task = self._asking[label] = asyncio.get_running_loop().create_task(self._ask(label, info))
            task.add_done_callback(lambda _: self._asking.pop(label, None))

    async def _ask(self, label: str, info: AsyncServiceInfo) -> None:
        with contextlib.suppress(OSError):
            if await info.async_request(self._zeroconf, ASKED_MS_MAX):
                self._tell(label, info)

    def _tell(self, label: str, info: AsyncServiceInfo) -> None:
        addresses = tuple(dialable(info.parsed_scoped_addresses())[:HEARD_ADDRESSES_MAX])
        if addresses and info.port:
            self._heard(label, Heard(dict(info.properties), info.port, addresses))


def dialable(addresses: Iterable[str]) -> list[str]:
    """Those of `addresses` that say enough to be dialled.

    What is heard over IPv4 tells of link-local addresses of IPv6 too, but not behind which interface of ours.
    """
    return [one for one in addresses if "%" in one or ipaddress.ip_address(one) not in _LINK_LOCAL]


_LINK_LOCAL = ipaddress.ip_network("fe80::/10")


def _named(interfaces: Sequence[Interface]) -> list[str | int]:
    """As zeroconf wants them: each address of IPv4, and the number of each interface that has IPv6."""
    found: list[str | int] = []
    for one in interfaces:
        found += [address for address in one.addresses if ":" not in address]
        if any(":" in address for address in one.addresses):
            found.append(one.number)
    return found
