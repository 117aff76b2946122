"""What all of handing on stands on: the store, the other parts of the daemon, tasks, and what is said over a link."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hhd.base import log
from hhd.base.errors import RefusedError, UserError
from hhd.node.control import ControlService
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.ports import Open, Peering, Running, Syncing
from hhd.node.kept_open import KeptOpen
from hhd.node.lanes import Lanes
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import handoff
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import AnyAside, AnyMessage, Offer
from hhd_protocol.ids import DeviceId, SessionId, TransferId

CHANNEL = "handoff"

CALM_SECONDS = 1.0
"""For a session that was released to run at its target, until what else is to be done is begun."""

KEPT_SECONDS = 10.0
"""That a handoff keeps the store open: much longer than a pause, and nobody who wants to repair it waits for long."""

T = TypeVar("T")


class Ways:
    """Used by each piece of handing on; all its methods are for the loop's thread."""

    def __init__(
        self,
        *,
        me: DeviceId,
        opened: Open,
        lanes: Lanes,
        peers: Peering,
        syncing: Syncing,
        workers: Running,
    ) -> None:
        self.me = me
        self._looking, self._changing = KeptOpen(opened, lanes.looking), KeptOpen(opened, lanes.changing)
        self._keeping: dict[TransferId, asyncio.TimerHandle] = {}
        self.peers, self.syncing, self.workers = peers, syncing, workers
        self.tasks: asyncio.TaskGroup | None = None
        """Of the daemon, while it is up."""
        self._called: dict[DeviceId, str] = {}
        self._channels: dict[Link, Channel] = {}
        self._sending: dict[DeviceId, asyncio.Lock] = {}

    def names(self, device: DeviceId) -> str:
        """What a device is called."""
        return self._called.get(device) or device_text(device)[:19]

    def learn_names(self, control: ControlService) -> None:
        """Learn what the devices are called."""
        devices = handoff_steps.devices_of(control.store, control.me)
        self._called = {device: devices.named(device) for device, _ in devices.all()}

    async def insist_on_link(self, device: DeviceId) -> Link:
        """The link to a device; raises RefusedError where there is none."""
        link = await self.peers.coming(device)
        if link is None:
            raise RefusedError(
                f"{self.names(device)} is not connected now; nothing was changed. For devices that are never online "
                "together: hhd transfer SESSION DEVICE --to FILE"
            )
        return link

    def soon(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do something beside what happens now; what comes of it does not end the daemon."""
        task = self.begin(self._guarded(doing))
        if task is None:
            doing.close()
        else:  # One that is cancelled before its first step never comes to what it was to do.
            task.add_done_callback(lambda _: doing.close())

    def begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Begin a task of the daemon's; None, with `doing` closed, where the daemon ends."""
        try:
            assert self.tasks is not None
            return self.tasks.create_task(doing)
        except RuntimeError:  # What is durable is gone on with when a daemon starts.
            doing.close()
            return None

    async def _guarded(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except (UserError, OSError, LinkError, FormatError) as error:
            log.fault("handoff", error)

    async def offer(self, session: SessionId, transfer: TransferId, model: str | None, to: DeviceId) -> Offer:
        """What this device says of a session to the device `to`, by the names that devices have now.

        Raises RefusedError, as `handoff_steps.offer_to`.
        """

        def made(control: ControlService) -> Offer:
            self.learn_names(control)
            return handoff_steps.offer_to(control.store, control.me, session, transfer, model, to, self.names(to))

        return await self.read(made)

    async def read(self, act: Callable[[ControlService], T]) -> T:
        """Look into the store."""
        return await self._looking.do(act)

    async def store(self, act: Callable[[ControlService], T]) -> T:
        """Do something with the store that changes it, or that must not lie before a change."""
        return await self._changing.do(act)

    async def calm(self, calm: asyncio.Event) -> None:
        """Wait until a session that was handed on runs, or for a moment: what can be done later does not take time
        from that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CALM_SECONDS):
                await calm.wait()

    def keep_open(self, transfer: TransferId) -> None:
        """Leave the store open from now on, for some seconds at most: much follows for this handoff."""
        if transfer not in self._keeping:
            loop = asyncio.get_running_loop()
            self._keeping[transfer] = loop.call_later(KEPT_SECONDS, self.let_go, transfer)
            self._looking.keep()
            self._changing.keep()

    def let_go(self, transfer: TransferId) -> None:
        """It need not be open for this handoff any more; again does nothing."""
        if (end := self._keeping.pop(transfer, None)) is not None:
            end.cancel()
            self._looking.let_go()
            self._changing.let_go()

    async def send(self, peer: DeviceId, message: AnyMessage | AnyAside) -> None:
        """Say something to a device, if there is a link; it is said again when it was lost."""
        link = self.peers.link(peer)
        if link is None:
            return
        async with self._sending.setdefault(peer, asyncio.Lock()):
            try:
                channel = self._channels.get(link)
                if channel is None:
                    channel = await link.open(CHANNEL, urgent=True)
                    self._channels = {one: kept for one, kept in self._channels.items() if one.error is None}
                    self._channels[link] = channel
                await channel.send(handoff.encode_message(message))
            except LinkError:
                self._channels.pop(link, None)
