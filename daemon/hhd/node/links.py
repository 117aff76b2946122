"""The links of this device: one to each member, and what is said on each until it ends.

    links.serve("sync", handler)          who serves the channels of a name that a peer opens
    links.on_linked(attend)               a coroutine for each link, begun once the group's records went both ways
    links.on_lost(heard), .link(device), .connected()
    await links.coming(device)            the link that is there, or that takes the place of one that broke just now

Nothing is served, and nobody is told of a link, before the two agree on who is in the group; the link of a device that
is put out is cut in the same moment. Whatever goes wrong with one device costs its link, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from hhd.base import log
from hhd.base.errors import UserError
from hhd.node import gossiping
from hhd.node.gossiping import GROUP
from hhd.node.roll import Roll
from hhd.transports.link import PAIR, Channel, Link, LinkError, Why
from hhd.transports.one import OnePerDevice
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

SETTLE_SECONDS = 15.0
"""For a peer to say which records of the group it has: 8 MB of them over a slow line."""
STRANGER_SECONDS = 15.0
"""For a stranger to begin with pairing."""
COMING_SECONDS = 3.0
"""For another link in the place of one that broke, which is dialled at once: a person who asks for something in that
moment is not told that the device is not connected."""

Handler = Callable[[Channel, Link], Awaitable[None]]
"""Serves a channel until it returns; FormatError costs the peer its link, LinkError is the end of it."""
Attend = Callable[[Link], Awaitable[None]]
"""Lives with a link: cancelled when it ends, and errors as of a handler."""


class Told(Protocol):
    """Who is told what becomes of links; at once, in the loop's thread."""

    def linked(self, device: DeviceId) -> None:
        """There is a link to a member, or another one."""

    def settled(self, device: DeviceId) -> None:
        """That link is in use from now on."""

    def lost(self, device: DeviceId, *, used: bool) -> None:
        """There is none any more; `used`: it had been in use."""


@dataclass(eq=False)
class _Kept:
    """A link that is kept. `ready`: it is in use; `group`: the channel on which the peer speaks of the group.

    `read`: whether this device, and the peer, might read everything when it was settled: what is served on it follows.
    """

    link: Link
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    group: asyncio.Future[Channel] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    read: tuple[bool, bool] | None = None
    parting: asyncio.Future[None] | None = None


class Links:
    """See above."""

    def __init__(self, roll: Roll, told: Told) -> None:
        self._roll, self._report = roll, told
        self._one = OnePerDevice(self._came, self._went)
        self._links: dict[DeviceId, _Kept] = {}
        self._serving: dict[str, Handler] = {}
        self._attending: list[Attend] = []
        self._lost: list[Callable[[DeviceId], None]] = []
        self._broke_at: dict[DeviceId, float] = {}
        self._news = asyncio.Event()
        """Set at each link that is in use from now on."""

    def connected(self) -> frozenset[DeviceId]:
        """The members with a link in use now."""
        return frozenset(device for device in self._links if self.link(device) is not None)

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member, None if none is in use."""
        one = self._links.get(device)
        return one.link if one is not None and one.ready.is_set() and one.link.error is None else None

    async def coming(self, device: DeviceId) -> Link | None:
        """The link to a member, waited for where one is being agreed on or broke just now; None if none is in use."""
        if (link := self.link(device)) is not None or not self._is_coming(device):
            return link
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMING_SECONDS):
                while (link := self.link(device)) is None:
                    self._news.clear()
                    await self._news.wait()
        return link

    def _is_coming(self, device: DeviceId) -> bool:
        broke_at = self._broke_at.get(device)
        return device in self._links or (
            broke_at is not None and asyncio.get_running_loop().time() < broke_at + COMING_SECONDS
        )

    def held(self) -> list[Link]:
        """All links, those too that are not in use yet."""
        return [one.link for one in self._links.values()]

    def serve(self, name: str, handler: Handler) -> None:
        """From now on `handler` serves the channels of this name that peers open."""
        assert name not in self._serving and name != GROUP, f"channels named {name} are served already"
        self._serving[name] = handler

    def on_linked(self, attend: Attend) -> None:
        """Begin `attend` with each link; it is cancelled when the link ends."""
        self._attending.append(attend)

    def on_lost(self, heard: Callable[[DeviceId], None]) -> None:
        """Call `heard` whenever a link that was in use ended; another may take its place, and is told of in turn."""
        self._lost.append(heard)

    def recheck(self) -> None:
        """The group changed: cut the link of each device that is no member any more, or has another role.

        Who has another role is linked anew, and served by that.
        """
        for device, one in list(self._links.items()):
            if not self._roll.trusted(device):
                self._cut(one, "the device is no member any more")
            elif one.read is None:
                continue
            elif one.read[1] and not self._roll.is_full(device):
                self._cut(one, "the device may not read any more")
            elif one.read != self._read(device) and not one.parting:
                one.parting = asyncio.ensure_future(one.link.close("a device has another role"))

    @staticmethod
    def _cut(one: _Kept, why: str) -> None:
        log.note("link_cut", device=device_text(one.link.peer), address=one.link.remote, why=why)
        one.link.cut(why)

    def _read(self, device: DeviceId) -> tuple[bool, bool]:
        return self._roll.is_full(self._roll.me.id), self._roll.is_full(device)

    async def keep(self, link: Link) -> None:
        """Keep `link` until it ends, unless there is a better one."""
        if not self._roll.trusted(link.peer):
            link.cut("the device is no member any more")
            return
        if not await self._one.offer(link):
            return
        one = self._links.get(link.peer)
        if one is None or one.link is not link:
            return  # Another one came in the same moment.
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._talk_of_group(one), self._take_channels(tasks, one), self._attend(tasks, one)):
                    self._begin(tasks, one, work)
                ended = await link.ended()
                for task in one.tasks:
                    task.cancel()
            log.note("link_ended", device=device_text(link.peer), address=link.remote, state=ended.why.value)
        finally:
            link.cut("it is over")

    async def let_pair(self, link: Link) -> None:
        """Serve a stranger, who may pair and nothing else, and end its link."""
        await self._guarded(link, self._serve_stranger(link))
        await link.close()

    async def _serve_stranger(self, link: Link) -> None:
        handler = self._serving.get(PAIR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STRANGER_SECONDS):
                channel = await link.accepted()
            if handler is not None and channel.name == PAIR:
                await handler(channel, link)

    def _came(self, link: Link) -> None:
        self._links[link.peer] = _Kept(link)
        self._report.linked(link.peer)

    def _went(self, link: Link, error: LinkError) -> None:
        one = self._links.pop(link.peer)
        if one.ready.is_set() and error.why is Why.LOST and self._roll.trusted(link.peer):
            self._broke_at[link.peer] = asyncio.get_running_loop().time()
        else:
            self._broke_at.pop(link.peer, None)
        self._report.lost(link.peer, used=one.ready.is_set())
        if one.ready.is_set():
            for heard in self._lost:
                heard(link.peer)

    def _begin(self, tasks: asyncio.TaskGroup, one: _Kept, work: Awaitable[None]) -> None:
        task = tasks.create_task(self._guarded(one.link, work))
        one.tasks.add(task)
        task.add_done_callback(one.tasks.discard)

    async def _guarded(self, link: Link, work: Awaitable[None]) -> None:
        try:
            await work
        except LinkError:
            return  # It ended, which is told once.
        except FormatError as error:
            log.fault("peer_broke_rules", error, device=device_text(link.peer), address=link.remote)
            link.cut("the rules were broken")
        except UserError as error:
            log.fault("link_given_up", error, device=device_text(link.peer), address=link.remote)
            link.cut("it could not be served")
        except Exception as error:  # noqa: BLE001 - the supervisor: our fault with one device must not end all others
            log.fault("link_failed", error, device=device_text(link.peer), address=link.remote)
            link.cut("it could not be served")

    async def _talk_of_group(self, one: _Kept) -> None:
        channel = await one.link.open(GROUP, urgent=True) if one.link.dialled else await one.group
        deadline = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._unsettled, one)
        try:
            await gossiping.talk(channel, self._roll, lambda: self._settled(one))
        finally:
            deadline.cancel()

    @staticmethod
    def _unsettled(one: _Kept) -> None:
        if not one.ready.is_set():
            one.link.cut("nothing was said of the group")

    def _settled(self, one: _Kept) -> None:
        device = one.link.peer
        if one.ready.is_set() or self._links.get(device) is not one or not self._roll.trusted(device):
            return
        log.note("linked", device=device_text(device), address=one.link.remote)
        one.read = self._read(device)
        one.ready.set()
        self._news.set()
        self._report.settled(device)

    async def _attend(self, tasks: asyncio.TaskGroup, one: _Kept) -> None:
        await one.ready.wait()
        for attend in self._attending:
            self._begin(tasks, one, attend(one.link))

    async def _take_channels(self, tasks: asyncio.TaskGroup, one: _Kept) -> None:
        while True:
            channel = await one.link.accepted()
            if channel.name == GROUP:
                if one.link.dialled or one.group.done():
                    raise FormatError("a second channel for the group")
                one.group.set_result(channel)
            else:
                self._begin(tasks, one, self._serve(one, channel))

    async def _serve(self, one: _Kept, channel: Channel) -> None:
        if channel.name != PAIR:  # A member may be paired again, and knows another group meanwhile.
            await one.ready.wait()
        handler = self._serving.get(channel.name)
        if handler is not None:
            await handler(channel, one.link)
        await channel.close()
