"""The other devices: the part of the daemon that keeps links to them, made of what this device has and a person set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.base.config import LinksConfig
    from hhd.identity.key import Identity
    from hhd.node.answers.peers import Around
    from hhd.node.asking import Asking
    from hhd.node.peers import Peers
    from hhd.transports.link import Transport


def peers(me: Identity) -> Peers:
    """Make the part; nothing of a network is imported, or opened, before there is somebody to link to."""
    import os
    import random
    import time

    from hhd.base import config
    from hhd.node import store
    from hhd.node.peers import Peers, Settings
    from hhd.node.peers_kept import KeptBook, KeptGroup
    from hhd.node.roll import Roll

    links = config.load().links
    roll = Roll(me, KeptGroup(me, lambda: store.opened(me)))
    made = Peers(
        roll=roll,
        books=KeptBook(me, lambda: store.opened(me)),
        transport=lambda: _transport(me, made, links),
        random=os.urandom,
        chance=random.SystemRandom().random,
        now_ms=lambda: time.time_ns() // 1_000_000,
        settings=Settings(multicast=links.multicast),
    )
    return made


def _transport(me: Identity, peers: Peers, links: LinksConfig) -> Transport:
    import os

    from hhd.base import log
    from hhd.base.release import RELEASE
    from hhd.identity.certificates import link_certificate, peer_device
    from hhd.transports.stream import Own
    from hhd.transports.tcp import TcpTransport
    from hhd.transports.tls import Certificate

    made = link_certificate(me)
    return TcpTransport(
        me.id,
        Certificate(certificate=made.certificate, key=made.key),
        peer_device,
        Own(instance=os.urandom(16), hhd=RELEASE, bytes_per_second=lambda: links.bytes_per_second),
        port=links.port or None,
        trusted=peers.roll.trusted,
        pairing_open=lambda: peers.pairing_open(),
        refused=lambda address, error: log.note("link_refused", address=address, state=error.why.value),
    )


def around() -> Around:
    """What the daemon says of other devices; raises RefusedError where none runs."""
    from hhd.node.answers.peers import Around

    with _daemon() as asking:
        return asking.ask("peers", Around, changes=False)


def add(address: str) -> Around:
    """Fix an address; raises UsageError, RefusedError."""
    return _changed("peer_add", address)


def remove(address: str) -> Around:
    """Fix it no more; raises RefusedError where it was not."""
    return _changed("peer_remove", address)


def _changed(verb: str, address: str) -> Around:
    from hhd.node.answers.peers import Around

    with _daemon() as asking:
        return asking.ask(verb, Around, address=address)


@contextmanager
def _daemon() -> Iterator[Asking]:
    """A connection to the daemon, which alone knows other devices."""
    from hhd.base.errors import RefusedError
    from hhd.node.asking import Asking

    link = sessions.daemon_link()
    if link is None:
        raise RefusedError("No daemon runs here, and only it reaches other devices: start it with hhd up.")
    with link:
        yield Asking(link)
