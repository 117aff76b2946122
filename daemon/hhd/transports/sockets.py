"""TCP sockets of links: opened, set up, listened on; IPv4 and IPv6 side by side."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from hhd.base.errors import RefusedError

PORT_DEFAULT = 17470
"""Where hhd listens if nothing else is set, so that a fixed address stays true; another port if this one is taken."""

NOT_SENT_BYTES = (128 * 1024, 1024 * 1024)
"""What the system takes beyond what is on its way, at least and at most: what is urgent waits behind that."""

NOT_SENT_SECONDS = 0.004
"""In between it is what a link sends in this time: enough that a fast one does not run dry while others have a turn."""

BACKLOG = 128
"""Connections that the system holds until they are taken."""

_NOT_SENT_LOW_WATER = {"linux": 25, "darwin": 0x201}.get(sys.platform)
"""TCP_NOTSENT_LOWAT, which `socket` does not name before Python 3.13."""

_MEASURED_SECONDS = 0.05
"""How long a rate is measured."""

Info = tuple[Any, Any, int, str, tuple[Any, ...]]
"""One address, as `socket.getaddrinfo` gives it."""

_SAME_PORT_TRIES = 16
"""A port that is free for IPv6 is seldom taken for IPv4."""


async def found(host: str, port: int) -> list[Info]:
    """Return what `socket.getaddrinfo` says of `host` for TCP; raises OSError, UnicodeError.

    A name is looked up in a thread of its own: where its server is silent that takes half a minute, in which neither
    who dials plain addresses, nor a daemon that ends, should wait for it.
    """
    with contextlib.suppress(OSError):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Info]] = loop.create_future()

    def tell(act: Callable[[], None]) -> None:
        if not answer.done():
            act()

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            act = functools.partial(answer.set_result, infos)
        except (OSError, UnicodeError) as error:
            act = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # Nobody waits any more: the loop is closed.
            loop.call_soon_threadsafe(tell, act)

    threading.Thread(target=look_up, name=f"looks up {host}", daemon=True).start()
    return await answer


def set_up(own: socket.socket) -> None:
    """Make a TCP socket fit for a link."""
    own.setblocking(False)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hold_back(own, NOT_SENT_BYTES[0])


def hold_back(own: socket.socket, count: int) -> None:
    """Let the system take so many bytes beyond what is on its way."""
    if _NOT_SENT_LOW_WATER is not None:
        with contextlib.suppress(OSError):
            own.setsockopt(socket.IPPROTO_TCP, _NOT_SENT_LOW_WATER, count)


class Fill:
    """How much the system may hold unsent for a socket, by how fast that sends."""

    def __init__(self, own: socket.socket, now: float) -> None:
        self._own, self._since, self._sent = own, now, 0
        self._held = NOT_SENT_BYTES[0]

    def full(self, sent: int, now: float) -> None:
        """The system takes no more at `now`, after `sent` bytes since the last time."""
        self._sent += sent
        seconds = now - self._since
        if seconds < _MEASURED_SECONDS:
            return
        least, most = NOT_SENT_BYTES
        held = least
        while held < most and held < self._sent / seconds * NOT_SENT_SECONDS:
            held *= 2
        if held != self._held:
            self._held = held
            hold_back(self._own, held)
        self._since, self._sent = now, 0


def listening(hosts: tuple[str, ...], port: int | None) -> list[socket.socket]:
    """Return sockets that listen on each of `hosts`, all on one port; `port` None: the default one, or any.

    A host that this machine does not have, such as `::` without IPv6, is left out. Raises RefusedError if the port is
    taken, or no host is there.
    """
    for one in (port,) if port is not None else (PORT_DEFAULT, 0):
        for _ in range(_SAME_PORT_TRIES if one == 0 else 1):
            found = _listening(hosts, one)
            if found is not None:
                return found
    raise RefusedError(
        f"Port {port} is taken by another program, so other devices could not reach this one; nothing was changed. "
        "Set another one as `port` under [links] in the configuration."
        if port
        else "No port could be found to listen on; nothing was changed."
    )


def shown(address: object) -> str:
    """Return the address of a socket as a person reads it."""
    match address:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address)


def network(address: tuple[object, ...]) -> str:
    """Return the network of an address that a crowd can be taken to be in: all of IPv4, the first half of IPv6."""
    host = str(address[0]).partition("%")[0]
    if ":" in host:
        return socket.inet_pton(socket.AF_INET6, host)[:8].hex()
    return host


def _listening(hosts: tuple[str, ...], port: int) -> list[socket.socket] | None:
    """Return the sockets, None if one of them is in use."""
    found: list[socket.socket] = []
    for host in hosts:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror:
            continue
        for family, kind, proto, _, address in infos:
            if port == 0 and found:  # One port for all.
                address = (address[0], found[0].getsockname()[1], *address[2:])
            try:
                found.append(_one(family, kind, proto, address))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    for one in found:
                        one.close()
                    return None
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    for one in found:
                        one.close()
                    raise RefusedError(f"hhd cannot listen on {shown(address)}: {error.strerror}.") from error
    if not found:
        raise RefusedError(f"This machine has none of the addresses {', '.join(hosts)}, so nothing can be listened on.")
    return found


def _one(family: int, kind: int, proto: int, address: object) -> socket.socket:
    own = socket.socket(family, kind, proto)
    try:
        own.setblocking(False)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        own.bind(address)  # type: ignore[arg-type]
        own.listen(BACKLOG)
    except OSError:
        own.close()
        raise
    return own
