"""Devices that hand sessions to one another in one process: real handoffs and stores, over links in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.node.two import Device, brought, devices

from hhd.base.errors import RefusedError, UserError
from hhd.node import here
from hhd.node.answers.handoff import Moved
from hhd.node.control import ControlService
from hhd.node.handoff import admission as handoff_admission
from hhd.node.handoff import again as handoff_again
from hhd.node.handoff import wishes as handoff_wishes
from hhd.node.handoff.handoffs import Handoffs
from hhd.node.handoff.ways import Ways
from hhd.node.lanes import Lanes
from hhd.store.store import Store
from hhd.transports.link import Channel, Link, LinkError
from hhd.transports.loopback import LoopbackTransport, Network
from hhd.transports.stream import Own
from hhd_protocol import live
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId

INSTANCE = b""
"""What an instance of a daemon begins with: set to another word, the next daemon that comes up is another one."""


@dataclass(eq=False)
class Site:
    """One device while its daemon is up: `peering`, `syncing` and `running` are what a handoff needs of the others."""

    device: Device
    house: House
    lanes: Lanes = field(default_factory=Lanes)
    links: dict[DeviceId, Link] = field(default_factory=dict)
    handlers: dict[str, Callable[[Channel, Link], Awaitable[None]]] = field(default_factory=dict)
    attending: list[Callable[[Link], Awaitable[None]]] = field(default_factory=list)
    started: list[SessionId] = field(default_factory=list)
    looked: list[SessionId] = field(default_factory=list)
    ahead: list[SessionId] = field(default_factory=list)
    readied: list[SessionId] = field(default_factory=list)
    unreadied: list[SessionId] = field(default_factory=list)
    does_not_load: str | None = None
    """Why no program loads here."""
    told: list[live.State] = field(default_factory=list)
    sleeping: set[SessionId] = field(default_factory=set)
    runs: set[SessionId] = field(default_factory=set)
    effect_ends: asyncio.Event = field(default_factory=asyncio.Event)
    soft: list[bool] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    living: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.effect_ends.set()
        ways = Ways(
            me=self.device.me.id,
            opened=self.opened,
            lanes=self.lanes,
            peers=self,  # type: ignore[arg-type]
            syncing=self,  # type: ignore[arg-type]
            workers=self,  # type: ignore[arg-type]
        )
        self.handoffs = Handoffs(ways)

    @contextlib.contextmanager
    def opened(self) -> Iterator[ControlService]:
        device = self.device
        with Store.open(device.store.folder, seed=device.me.seed, limits=device.limits) as store:
            yield ControlService(store=store, me=device.me)

    # Peering

    def link(self, device: DeviceId) -> Link | None:
        link = self.links.get(device)
        return link if link is not None and link.error is None else None

    async def coming(self, device: DeviceId) -> Link | None:
        return self.link(device)

    def serve(self, name: str, handler: Callable[[Channel, Link], Awaitable[None]]) -> None:
        self.handlers[name] = handler

    def on_linked(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        self.attending.append(attend)

    async def keep(self, link: Link) -> None:
        """Live with a link until it ends."""
        self.links[link.peer] = link
        for attend in self.attending:
            self.soon(attend(link))
        with contextlib.suppress(LinkError):
            while True:
                channel = await link.accepted()
                self.soon(self._served(channel, link))

    async def _served(self, channel: Channel, link: Link) -> None:
        """As `hhd.node.links` serves it: a name that nobody serves ends the channel, a broken rule the link."""
        try:
            handler = self.handlers.get(channel.name)
            if handler is not None:
                await handler(channel, link)
            await channel.close()
        except FormatError:
            link.cut("the rules were broken")
        except LinkError:
            return

    def soon(self, doing: Any) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # Syncing

    async def wait_synced(self, session: SessionId, device: DeviceId, deadline: float | None = None) -> None:
        while self.link(device) is None:
            await asyncio.sleep(0.01)
        target = self.house.site(device)
        await self.lanes.looking.do(lambda: self._bring(target, session))
        target.handoffs.learned(session)

    def _bring(self, target: Site, session: SessionId) -> None:
        with self.opened() as here_, target.opened() as there:
            brought(_Open(self.device, here_.store), _Open(target.device, there.store), session)

    # Running

    async def start(
        self, session: SessionId, folder: Path | None = None, model: str | None = None, *, noted: bool = False
    ) -> bool:
        self.started.append(session)
        self.runs.add(session)
        await self.house.on_start(self, session)
        return True

    async def look(self, session: SessionId) -> None:
        self.looked.append(session)

    def look_ahead(self, session: SessionId) -> None:
        self.ahead.append(session)

    async def ready(self, session: SessionId, head: CheckpointId) -> None:
        self.readied.append(session)
        if self.does_not_load is not None:
            raise RefusedError(self.does_not_load)

    def unready(self, session: SessionId) -> None:
        self.unreadied.append(session)

    async def pause(self, session: SessionId, *, soft: bool = False) -> live.State | None:
        self.soft.append(soft)
        if soft:
            await self.effect_ends.wait()
        self.runs.discard(session)
        return None

    async def halt(self, session: SessionId, *, soft: bool = False) -> None:
        await self.pause(session, soft=soft)

    def running(self) -> dict[SessionId, live.State]:
        state = live.State(name="running", sentence="", ways=(), effect="", status=0)
        return dict.fromkeys(self.runs, state)

    def chosen(self, session: SessionId) -> tuple[Path | None, str | None]:
        return None, None

    def tell(self, session: SessionId, state: live.State) -> None:
        self.told.append(state)

    # Its life

    async def transfer(self, session: SessionId, to: str, **more: Any) -> list[Moved]:
        """`hhd transfer`, all that it says."""
        return [moved async for moved in self.handoffs.transfer(session.hex(), to, **more)]

    def folder(self, session: SessionId) -> Path:
        with self.opened() as control:
            noted = here.noted(control.store, session)
        assert noted is not None and noted.folder is not None
        return noted.folder


@dataclass
class _Open:
    """A device with another opening of its store."""

    _device: Device
    store: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)


class House:
    """All devices, and the network between them."""

    made: type[Site] = Site

    def __init__(self, devices: list[Device]) -> None:
        self.devices = {one.repo.parent.name: one for one in devices}
        self.network = Network()
        self.sites: dict[str, Site] = {}
        self.on_start: Callable[[Site, SessionId], Awaitable[None]] = _nothing

    def name(self, device: DeviceId) -> str:
        return next((name for name, one in self.devices.items() if one.me.id == device), "?")

    def site(self, device: DeviceId) -> Site:
        return self.sites[self.name(device)]

    async def up(self, name: str) -> Site:
        """Start the daemon of a device, and link it with those that are up."""
        device = self.devices[name]
        site = self.sites[name] = self.made(device=device, house=self)
        members = {one.me.id for one in self.devices.values()}
        transport = LoopbackTransport(
            self.network,
            name,
            device.me.id,
            Own(instance=(INSTANCE + device.me.id)[:16], hhd="1"),
            trusted=members.__contains__,
        )
        site.listener = await transport.listen(site.keep, port=1)  # type: ignore[attr-defined]
        site.transport = transport  # type: ignore[attr-defined]
        site.living = asyncio.get_running_loop().create_task(site.handoffs.run())
        for other in list(self.sites):
            if other != name:
                await self.link(name, other)
        return site

    async def link(self, one: str, other: str) -> None:
        site, there = self.sites[one], self.sites[other]
        link = await site.transport.dial(other, 1, there.device.me.id)  # type: ignore[attr-defined]
        site.soon(site.keep(link))

    def cut(self, one: str, other: str) -> None:
        """The link between two breaks; what is on its way is lost."""
        a, b = self.sites[one], self.sites[other]
        for site, peer in ((a, b), (b, a)):
            link = site.links.pop(peer.device.me.id, None)
            if link is not None:
                link.cut("the cable")

    async def kill(self, name: str) -> None:
        """The daemon of a device ends at once, wherever it is."""
        site = self.sites.pop(name)
        for link in list(site.links.values()):
            link.cut("killed")
        tasks = [*site.tasks, *([site.living] if site.living else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await site.listener.close()  # type: ignore[attr-defined]
        await asyncio.to_thread(site.lanes.close)


async def _nothing(site: Site, session: SessionId) -> None:
    """What a started session does: nothing by itself."""


@contextlib.asynccontextmanager
async def house(devices: list[Device]) -> AsyncIterator[House]:
    """All daemons up, and down at the end."""
    made = House(devices)
    for name in made.devices:
        await made.up(name)
    try:
        yield made
    finally:
        for name in list(made.sites):
            await made.kill(name)


@contextlib.contextmanager
def unasked(
    folder: Path,
    script: list[Any],
    *names: str,
    again: float | None = None,
    look: float | None = None,
    reply: float | None = None,
) -> Iterator[list[Device]]:
    """Devices that are not asked which model they have. In seconds, where a test is not to wait as long as hhd does:
    until a handoff is tried `again`, until a daemon takes another `look`, until a `reply` is missed."""
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(handoff_admission, "_of_model", lambda *_: []))
        for module, name, seconds in (
            (handoff_again, "AGAIN_SECONDS", again),
            (handoff_again, "LOOK_SECONDS", look),
            (handoff_wishes, "REPLY_SECONDS", reply),
        ):
            if seconds is not None:
                patches.enter_context(mock.patch.object(module, name, seconds))
        yield patches.enter_context(devices(folder, script, *names, rules={"allow": []}))


def run(devices: list[Device], go: Callable[[House], Coroutine[Any, Any, None]]) -> None:
    """Do `go` while all daemons are up, and each is linked with each other one."""

    async def all_up() -> None:
        async with house(devices) as home:
            await until(lambda: all(len(site.links) == len(devices) - 1 for site in home.sites.values()))
            await go(home)

    asyncio.run(all_up())


def known_to_all(devices: list[Device]) -> SessionId:
    """A session of the first device, which made its first step, and that the others have all of."""
    first, *others = devices
    session = first.create()
    first.go_here(session)
    for other in others:
        brought(first, other, session)
    return session


async def until(holds: Callable[[], bool], seconds: float = 240) -> None:
    """Wait until something holds; it is looked at after every turn of the loop."""
    async with asyncio.timeout(seconds):
        while True:
            with contextlib.suppress(UserError):
                if holds():
                    return
            await asyncio.sleep(0.005)
