"""Hosts of the laboratory as devices of one group, made in their stores directly: pairing has tests of its own."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tests.net.lab import Host, Net

from hhd.app import peering
from hhd.identity.key import Identity
from hhd.node import store, this_device
from hhd.node.answers.peers import Around, Peer
from hhd.node.group import Membership
from hhd.store import database, opening
from hhd_protocol.crypto import device_text
from hhd_protocol.statements import Role

NOW_MS = 1_700_000_000_000
SECONDS = 240.0
"""After which a test gives up, on a machine that does much else; what is promised is measured by the bench."""


@contextlib.contextmanager
def at(host: Host) -> Iterator[Identity]:
    """This process, as if it were a command of that host, and as patient as a test is."""
    with (
        mock.patch.dict(os.environ, host.environment, clear=True),
        mock.patch.object(opening, "OPEN_SECONDS", SECONDS),
        mock.patch.object(database, "BUSY_SECONDS", SECONDS),
    ):
        yield this_device.identity()


def membership(host: Host, act: Callable[[Membership], Any]) -> Any:
    """Do something with the group of a host, in its store."""
    with at(host) as me, store.opened(me) as opened:
        return act(Membership(opened, me))


def pair(net: Net, *names: str) -> None:
    """Make these hosts devices of one group, that the first one founded."""
    first, *others = (net[name] for name in names)
    membership(first, lambda group: group.found(first.name, NOW_MS))
    for host in others:
        with at(host) as me:
            public = me.public
        membership(first, lambda group, host=host, public=public: group.add(public, host.name, Role.FULL, NOW_MS))
    records = membership(first, lambda group: group.records())
    root = membership(first, lambda group: group.group.root)
    for host in others:
        membership(host, lambda group: group.join(records, root, NOW_MS))


def noted(host: Host, event: str, **fields: str) -> list[dict[str, Any]]:
    """What the daemon of a host has in its log of an event, so far: the lines of which each field begins with this."""
    logs = sorted((host.folder / "data/logs").glob("daemon.jsonl*"), reverse=True)  # The newest has no number.
    lines = [json.loads(line) for log in logs for line in _whole_lines(log)]
    return [
        one
        for one in lines
        if one["event"] == event and all(str(one.get(name, "")).startswith(begin) for name, begin in fields.items())
    ]


def _whole_lines(log: Path) -> list[bytes]:
    """The lines of a file that somebody writes to: of the last one not all may be there. None where it is gone."""
    try:
        return log.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def device(host: Host) -> str:
    """The id of a host's device, as a person reads it."""
    with at(host) as me:
        return device_text(me.id)


def around(host: Host) -> Around:
    """What the daemon of a host says of others."""
    with mock.patch.dict(os.environ, host.environment, clear=True):
        return peering.around()


def peers(host: Host) -> dict[str, Peer]:
    """The same, by their names."""
    return {peer.name: peer for peer in around(host).peers}


def linked(host: Host) -> set[str]:
    """The names of the devices that a host has links to."""
    return {name for name, peer in peers(host).items() if peer.linked}


def both_linked(one: Host, other: Host) -> bool:
    """Whether each of two has a link to the other."""
    return other.name in linked(one) and one.name in linked(other)


def until(came: Callable[[], bool], seconds: float = SECONDS, *, pause: float = 0.02) -> float:
    """Wait until something is so, and return how many seconds that took; `pause`: between two looks, at least.

    Looks take half of the time at most: what is waited for needs the processor, and the daemon that is asked.
    """
    begin = now = time.monotonic()
    while not came():
        looked, now = now, time.monotonic()
        assert now < begin + seconds, "it did not come to be so"
        time.sleep(max(pause, now - looked))
        now = time.monotonic()
    return time.monotonic() - begin
