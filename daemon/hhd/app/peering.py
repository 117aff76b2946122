"""The other devices: the part of the daemon that keeps links to them, made of what this device has and a person set."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.identity.key import Identity
    from hhd.node.answers.pairing import PairingStep
    from hhd.node.answers.peers import Around, Peer
    from hhd.node.asking import Asking
    from hhd.node.meeting import Meeting
    from hhd.node.peers import Peers
    from hhd.node.sharing import Sharing
    from hhd.store.store import Store
    from hhd.transports.link import Transport

T = TypeVar("T")


def parts(me: Identity) -> tuple[Peers, Meeting, Sharing]:
    """Make the parts; nothing of a network is imported, or opened, before there is somebody to link to, or to pair."""
    import os
    import random

    from hhd.base import config
    from hhd.node import store
    from hhd.node.group_verbs import own_name
    from hhd.node.lanes import Lane
    from hhd.node.listening import Settings
    from hhd.node.meeting import Meeting
    from hhd.node.pairing import Pairing
    from hhd.node.peers import Peers
    from hhd.node.peers_kept import KeptBook, KeptGroup
    from hhd.node.roll import Roll
    from hhd.node.sharing import Sharing

    def settings() -> Settings:
        links = config.load().links
        return Settings(port=links.port or None, multicast=links.multicast)

    roll = Roll(me, KeptGroup(me, lambda: store.opened(me)))
    made = Peers(
        roll=roll,
        books=KeptBook(me, lambda: store.opened(me)),
        transport=lambda: _transport(me, made),
        random=os.urandom,
        chance=random.SystemRandom().random,
        now_ms=_wall_ms,
        settings=settings,
    )
    lane = Lane("pairing")

    async def work(act: Callable[[Store], T]) -> T:
        def opened() -> T:
            with store.opened(me) as one:
                return act(one)

        return await lane.do(opened)

    pairing = Pairing(
        me=me, work=work, random=os.urandom, boot_ms=_boot_ms, wall_ms=_wall_ms, changed=lambda: meeting.changed()
    )
    meeting = Meeting(peers=made, pairing=pairing, name=lambda: work(lambda one: own_name(one, me)))
    return made, meeting, Sharing(made, lambda: store.opened(me))


def _wall_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def _boot_ms() -> int:
    from hhd.discovery.waking import Clocks

    return int(Clocks().passing() * 1000)


def _transport(me: Identity, peers: Peers) -> Transport:
    import os

    from hhd.base import config, log
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
        Own(instance=os.urandom(16), hhd=RELEASE, bytes_per_second=lambda: config.load().links.bytes_per_second),
        port=lambda: config.load().links.port or None,
        trusted=peers.roll.trusted,
        pairing_open=lambda: peers.pairing_open(),
        refused=lambda address, error: log.note("link_refused", address=address, state=error.why.value),
    )


def around() -> Around:
    """What the daemon says of other devices; raises RefusedError where none runs."""
    from hhd.node.answers.peers import Around

    with asking() as daemon:
        return daemon.ask("peers", Around, changes=False)


def peers_now() -> tuple[Peer, ...]:
    """The other devices as the daemon has them; none where no daemon runs, or one that is older than this hhd."""
    from hhd.base.errors import RefusedError

    try:
        return around().peers
    except RefusedError:
        return ()


def add(address: str) -> Around:
    """Fix an address; raises UsageError, RefusedError."""
    return _changed("peer_add", address)


def remove(address: str) -> Around:
    """Fix it no more; raises RefusedError where it was not."""
    return _changed("peer_remove", address)


def _changed(verb: str, address: str) -> Around:
    from hhd.node.answers.peers import Around

    with asking() as daemon:
        return daemon.ask(verb, Around, address=address)


@contextmanager
def asking() -> Iterator[Asking]:
    """A connection to the daemon, which alone knows other devices."""
    from hhd.base.errors import RefusedError
    from hhd.node.asking import Asking

    link = sessions.daemon_wanted()
    if link is None:
        raise RefusedError("No daemon runs here, and only it reaches other devices: start it with hhd up.")
    with link:
        yield Asking(link)


def pair_show(role: str) -> Generator[PairingStep, None, None]:
    """Show a code, and tell of what comes of it; raises RefusedError, UncertainError."""
    from hhd.node.answers.pairing import PairingStep

    with asking() as daemon:
        yield from daemon.stream("pair_show", PairingStep, role=role)


def pair_with(code: str, *, host: str | None) -> Generator[PairingStep, None, None]:
    """Pair with the device that shows `code`; raises UsageError, RefusedError, UncertainError."""
    from hhd.node.answers.pairing import PairingStep

    with asking() as daemon:
        yield from daemon.stream("pair_with", PairingStep, code=code, host=host)


def pair_answer(yes: bool, words: tuple[str, ...]) -> bool:
    """Answer the question that showed `words`; False where it does not wait any more."""
    with asking() as daemon:
        return daemon.ask("pair_answer", bool, yes=yes, words=words)
