"""The shared document kept equal with each linked full member: the channel "registry" (`spec/peers.md`).

What is compared first is the mark, which needs no document: two devices that agree load nothing. Each step opens the
store anew, in a thread; who changes the document elsewhere in this process says so with `look`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from hhd.node import registry as door
from hhd.node.gossiping import receive_whole, send_whole
from hhd.node.lanes import Lane
from hhd.node.peers import Peers
from hhd.node.service import Verb
from hhd.transports.link import Channel, Link
from hhd_protocol.codec import decode, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.gossip import Joiner
from hhd_protocol.limits import REGISTRY_MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from hhd.registry.registry import Registry
    from hhd.registry.sync import Peer
    from hhd.store.store import Store

T = TypeVar("T")

REGISTRY = "registry"
FIRST_VERSION = 1
FIRST_BYTES_MAX = 64
SETTLE_SECONDS = 0.2
"""After a change: a person who renames three sessions says it once."""
LOOK_SECONDS = 60.0
"""Between looks at whether a process that said nothing changed it."""


class Sharing:
    """A part of the daemon; `opened` gives the store, open meanwhile."""

    def __init__(self, peers: Peers, opened: Callable[[], AbstractContextManager[Store]]) -> None:
        self._peers, self._opened, self._lane = peers, opened, Lane("registry")
        self._poked = asyncio.Event()
        self._talks: set[_Talk] = set()
        peers.on_linked(self._attend)
        peers.serve(REGISTRY, self._serve)

    def verbs(self) -> dict[str, Verb]:
        """None: names and titles have verbs of their own."""
        return {}

    async def run(self) -> None:
        """Look at what changed, and pass it on."""
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_SECONDS if self._talks else None):
                        await self._poked.wait()
                        await asyncio.sleep(SETTLE_SECONDS)
                except TimeoutError:
                    pass
                self._poked.clear()
                if self._talks:
                    mark = await self.mark()
                    for talk in self._talks:
                        talk.look(mark)
        finally:
            self._lane.close()

    async def stop(self) -> None:
        """What is under way comes again with the next link."""

    def look(self) -> None:
        """The document may have changed."""
        self._poked.set()

    async def mark(self) -> bytes:
        """Return what stands for the document as it is now."""
        from hhd.registry import marks

        return await self._with_store(lambda store: marks.digest(store.shared.mark()))

    async def with_registry(self, act: Callable[[Registry], T]) -> T:
        """Return what `act` returns, in the thread that may block."""
        return await self._with_store(lambda store: act(door.opened(store)))

    async def _with_store(self, act: Callable[[Store], T]) -> T:
        def opened() -> T:
            with self._opened() as store:
                return act(store)

        return await self._lane.do(opened)

    async def _attend(self, link: Link) -> None:
        if link.dialled and self._both_read(link):
            await self._talk(await link.open(REGISTRY))

    async def _serve(self, channel: Channel, link: Link) -> None:
        if not self._both_read(link):
            raise FormatError("a device that may not read the shared document asks for it")
        await self._talk(channel)

    def _both_read(self, link: Link) -> bool:
        roll = self._peers.roll
        return roll.is_full(roll.me.id) and roll.is_full(link.peer)

    async def _talk(self, channel: Channel) -> None:
        talk = _Talk(self, channel)
        self._talks.add(talk)
        self._poked.set()  # From now on it is looked at.
        try:
            await talk.run()
        finally:
            self._talks.discard(talk)


class _Talk:
    """One channel: what is known of the peer's document on it, None as long as nothing had to be said."""

    def __init__(self, sharing: Sharing, channel: Channel) -> None:
        self._sharing, self._channel = sharing, channel
        self._peer: Peer | None = None
        self._told = False
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._mark: bytes | None = None

    def look(self, mark: bytes) -> None:
        """The document here has this mark now."""
        if self._mark is not None and mark != self._mark:
            self._mark = mark
            self._changed.set()

    async def run(self) -> None:
        """Until the channel ends; raises LinkError, FormatError, UserError."""
        joiner = Joiner(REGISTRY_MESSAGE_BYTES_MAX)
        mine = self._mark = await self._sharing.mark()
        await send_whole(self._channel, encode([FIRST_VERSION, mine]))
        first = await receive_whole(self._channel, joiner)
        if first is None:
            return
        if _mark_of(first) != mine:
            await self._begin()
        both = [asyncio.ensure_future(self._listen(joiner)), asyncio.ensure_future(self._pass_on())]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _listen(self, joiner: Joiner) -> None:
        while (raw := await receive_whole(self._channel, joiner)) is not None:
            async with self._turn:
                await self._hear(raw)

    async def _pass_on(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._told:
                async with self._turn:
                    await self._say()
            else:
                await self._begin()

    async def _begin(self) -> None:
        """Say which document is here, unless that was said."""
        from hhd.registry import sync

        async with self._turn:
            if not self._told:
                self._told = True
                await send_whole(self._channel, await self._sharing.with_registry(sync.summary))

    async def _hear(self, raw: bytes) -> None:
        from hhd.registry import sync

        if self._peer is None:
            self._peer = sync.Peer.of(raw)
            if not self._told:
                self._told = True
                await send_whole(self._channel, await self._sharing.with_registry(sync.summary))
        else:
            peer = self._peer
            if await self._sharing.with_registry(lambda registry: sync.receive(registry, peer, raw)):
                self._sharing.look()
        await self._say()

    async def _say(self) -> None:
        from hhd.registry import sync

        peer = self._peer
        if peer is None:
            return  # It has not said yet what it has.
        while (raw := await self._sharing.with_registry(lambda registry: sync.message_for(registry, peer))) is not None:
            await send_whole(self._channel, raw)


def _mark_of(raw: bytes) -> bytes:
    match decode(raw, bytes_max=FIRST_BYTES_MAX):
        case [1, bytes(mark)] if len(mark) in (0, 32):
            return mark
    raise FormatError("the first word about the shared document is in no form known here")
