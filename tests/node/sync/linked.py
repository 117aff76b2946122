"""The part that syncs over real links, without the rest of a daemon: its stores, its group, what it asks of others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.transports.devices import certificate_of, device_named

from hhd.identity.certificates import peer_device
from hhd.node.group import Membership
from hhd.store.store import Limits, Store
from hhd.transports.link import Channel, Link, LinkError
from hhd.transports.stream import Own
from hhd.transports.tcp import TcpTransport
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.statements import Role

Handler = Callable[[Channel, Link], Awaitable[None]]


@dataclass(kw_only=True, eq=False)
class Hallway:
    """The other parts of a daemon, as the one that syncs needs them: every member is full, and none changes."""

    serving: dict[str, Handler] = field(default_factory=dict)
    attending: list[Callable[[Link], Awaitable[None]]] = field(default_factory=list)
    live: Link | None = None

    def link(self, device: DeviceId) -> Link | None:
        return self.live

    def serve(self, name: str, handler: Handler) -> None:
        self.serving[name] = handler

    def on_linked(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        self.attending.append(attend)

    def is_full(self, device: DeviceId) -> bool:
        return True

    def only_stores(self, device: DeviceId) -> bool:
        return False

    def on_change(self, heard: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Peering(Hallway):
    """Links without discovery: one side listens, the other dials."""

    def __init__(self, name: str) -> None:
        super().__init__()
        own = Own(instance=os.urandom(16), hhd="bench")
        me = device_named(name).id
        self.transport = TcpTransport(
            me, certificate_of(name), peer_device, own, hosts=("0.0.0.0",), port=0, trusted=lambda _: True
        )

    async def keep(self, link: Link) -> None:
        """Live with a link until it ends."""
        self.live = link
        with contextlib.suppress(LinkError, BaseExceptionGroup):
            async with asyncio.TaskGroup() as tasks:
                for attend in self.attending:
                    tasks.create_task(attend(link))  # type: ignore[arg-type]
                while True:
                    channel = await link.accepted()
                    tasks.create_task(self.serving[channel.name](channel, link))  # type: ignore[arg-type]


class Idle:
    """No sessions run here."""

    def __init__(self) -> None:
        self.on_step: list[Callable[[SessionId], None]] = []
        self.on_intent: list[Callable[[SessionId], None]] = []
        self.on_person: list[Callable[[SessionId], None]] = []

    def looked_again(self, session: SessionId) -> None:
        pass

    def running(self) -> list[SessionId]:
        return []


def opened(folder: Path, name: str) -> Store:
    return Store.open(folder / name / "store", seed=device_named(name).seed, limits=Limits(free_bytes_min=0))


def grouped(folder: Path, *names: str) -> None:
    """Make these devices one group, in their stores."""
    stores = [(device_named(name), opened(folder, name)) for name in names]
    first = Membership(stores[0][1], stores[0][0])
    first.found(names[0], 1)
    for name, (me, _) in zip(names[1:], stores[1:], strict=True):
        first.add(me.public, name, Role.FULL, 2)
    for me, store in stores[1:]:
        assert first.group is not None
        Membership(store, me).join(first.records(), first.group.root, 3)
    for _, store in stores:
        store.close()
