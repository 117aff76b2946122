"""The networks this device is on now, and word of every change.

Only what can be announced on counts: interfaces that are up, connected, and can multicast. A point-to-point VPN that
cannot, and loopback, are none of them; devices behind one are reached by addresses that were fixed or known before.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import os
import socket
import struct
import sys
from typing import NamedTuple

import ifaddr

INTERFACES_MAX = 16
"""Interfaces that are announced on: a laptop has three, a host of containers a bridge for each project."""
ADDRESSES_MAX = 16
"""Of one interface: IPv6 gives a busy one some five."""
POLL_SECONDS = 5.0
"""Where the system does not say when something changed."""
SETTLE_SECONDS = 0.2
"""Changes come in bursts: an interface that comes up is told of six times."""

_SIOCGIFFLAGS = 0x8913 if sys.platform != "darwin" else 0xC0206911
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40
_MULTICAST = 0x1000 if sys.platform != "darwin" else 0x8000
_TENTATIVE, _DUPLICATE = 0x40, 0x08
_LINK_GROUPS = 0x1 | 0x10 | 0x100
"""RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR of rtnetlink(7)."""
_NETLINK_ROUTE = 0
_AF_ROUTE = 17


class Interface(NamedTuple):
    """One interface to announce on: its name, its number in the kernel, its addresses without scopes."""

    name: str
    number: int
    addresses: tuple[str, ...]


def usable() -> tuple[Interface, ...]:
    """Return the interfaces that are of use now, those with IPv4 first; an address that is still tried out is none."""
    unready = _unready()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for adapter in ifaddr.get_adapters():
            name = adapter.name
            if adapter.index is None or not _can_multicast(asking, name) or _is_port_of_a_bridge(name):
                continue
            addresses = [one.ip if isinstance(one.ip, str) else one.ip[0] for one in adapter.ips]
            ready = sorted({one.partition("%")[0] for one in addresses} - unready.get(name, set()), key=_order)
            if ready:
                found.append(Interface(name, adapter.index, tuple(ready[:ADDRESSES_MAX])))
    found.sort(key=lambda one: (_order(one.addresses[0]), one.number))
    return tuple(found[:INTERFACES_MAX])


def _order(address: str) -> tuple[bool, bool, str]:
    parsed = ipaddress.ip_address(address)
    return parsed.version == 6, parsed.is_link_local, address


def _can_multicast(asking: socket.socket, name: str) -> bool:
    try:
        answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16s16x", os.fsencode(name)[:15]))
    except OSError:
        return False  # It went away meanwhile.
    flags: int = struct.unpack_from("H", answer, 16)[0]
    return flags & (_UP | _RUNNING | _MULTICAST | _LOOPBACK) == _UP | _RUNNING | _MULTICAST


def _is_port_of_a_bridge(name: str) -> bool:
    """The end of a container's cable: the bridge itself is the interface, and containers come and go by the second."""
    return os.path.exists(f"/sys/class/net/{name}/brport")


def _unready() -> dict[str, set[str]]:
    """Addresses of IPv6 that are still checked for being used twice, or are: nothing can be bound to them."""
    found: dict[str, set[str]] = {}
    with contextlib.suppress(OSError), open("/proc/net/if_inet6") as table:
        for line in table:
            address, _, _, _, flags, name = line.split()
            if int(flags, 16) & (_TENTATIVE | _DUPLICATE):
                found.setdefault(name, set()).add(str(ipaddress.IPv6Address(bytes.fromhex(address))))
    return found


class Watch:
    """Waits for changes of interfaces and addresses; the system is asked by a socket that is silent in between."""

    def __init__(self) -> None:
        self._socket = _telling_socket()
        self._stirred = asyncio.Event()
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._told)

    async def stirred(self) -> None:
        """Return once something may have changed, and then came to rest for a moment."""
        if self._socket is None:
            await asyncio.sleep(POLL_SECONDS)
            return
        await self._stirred.wait()
        await asyncio.sleep(SETTLE_SECONDS)
        self._stirred.clear()

    def close(self) -> None:
        """Watch no more."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()

    def _told(self) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):  # ENOBUFS: more was said than fits, so something changed all the more.
            while self._socket.recv(65536):
                pass
        self._stirred.set()


def _telling_socket() -> socket.socket | None:
    """Return a socket that becomes readable when an interface or address changes; None where there is no such thing."""
    made = None
    try:
        if sys.platform == "darwin":
            made = socket.socket(_AF_ROUTE, socket.SOCK_RAW, 0)
        else:
            made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE)
            made.bind((0, _LINK_GROUPS))
        made.setblocking(False)
    except OSError:
        if made is not None:
            made.close()
        return None
    return made
