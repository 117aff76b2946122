"""What is asked of sessions at other devices: each thing is done once, however often the link breaks before the answer.

A link that came back is asked again, by the same id; the home does nothing twice. Only a home whose daemon was started
anew meanwhile remembers nothing: then whether words arrived cannot be known, and who said them is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from hhd.base.errors import Exit, RefusedError, UncertainError, UserError, error_of
from hhd.node.relay import safe as relay_safe
from hhd.node.relay.ports import Home
from hhd.transports.link import Channel, Link, LinkError, Why
from hhd_protocol import relay
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

CHANNEL = "live"
AGAIN_SECONDS = 20.0
"""For a link that broke while something was asked to come back."""
REPLY_SECONDS = 45.0
"""For an answer: a session is paused in ten seconds at most, and one is started within some."""


class _Talk:
    """The channel on which this side asks on one link: opened when something is to be asked."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._wanted = asyncio.Event()
        self._channel: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self._waiting: dict[bytes, asyncio.Future[relay.Reply]] = {}

    async def live(self) -> None:
        """Hear answers until the link ends; raises LinkError, FormatError."""
        try:
            await self._wanted.wait()
            channel = await self.link.open(CHANNEL, urgent=True)
            self._channel.set_result(channel)
            while (raw := await channel.receive()) is not None:
                said = relay.decode_message(raw)
                if not isinstance(said, relay.REPLIES):
                    raise FormatError("something is answered that is no answer")
                future = self._waiting.pop(said.id, None)
                if future is not None and not future.done():
                    future.set_result(said)
        finally:
            over = LinkError(Why.LOST, "The link ended.")
            futures: list[asyncio.Future[Any]] = [self._channel, *self._waiting.values()]
            for one in futures:
                if not one.done():
                    one.set_exception(over.again())
                    one.exception()  # Nobody may be waiting for it.

    async def ask(self, ask: relay.Ask, sent: Callable[[], None]) -> relay.Reply:
        """Return the answer; calls `sent` before the first byte goes. Raises LinkError."""
        channel = await self._open()
        future: asyncio.Future[relay.Reply] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = future
        try:
            sent()
            await channel.send(relay.encode_message(ask))
            return await future
        finally:
            self._waiting.pop(ask.id, None)

    async def tell(self, message: relay.Keys) -> None:
        """Say what nobody answers. Raises LinkError."""
        channel = await self._open()
        await channel.send(relay.encode_message(message))

    async def _open(self) -> Channel:
        self._wanted.set()
        return await asyncio.shield(self._channel)


class Asking:
    """Asks the members that are linked."""

    def __init__(self) -> None:
        self._talks: dict[DeviceId, _Talk] = {}
        self._linked = asyncio.Event()

    async def attend(self, link: Link) -> None:
        """Live with a link."""
        talk = self._talks[link.peer] = _Talk(link)
        self._linked.set()
        try:
            await talk.live()
            await link.ended()
        finally:
            if self._talks.get(link.peer) is talk:
                del self._talks[link.peer]

    def linked(self, device: DeviceId) -> bool:
        """Whether `device` can be asked now."""
        return device in self._talks

    async def ask(self, home: Home, ask: relay.Ask) -> relay.Reply:
        """Return what `home` answers to `ask`.

        For a device that is linked, or was just now. Raises what it says instead; RefusedError where it was not sent,
        UncertainError where it may have arrived.
        """
        instance: list[bytes] = []
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                return await self._until_answered(home, ask, instance)
        except TimeoutError:
            raise self._lost(home, ask, bool(instance), "did not answer") from None

    async def _until_answered(self, home: Home, ask: relay.Ask, instance: list[bytes]) -> relay.Reply:
        while True:
            talk = await self._back(home)
            if talk is None:
                raise self._lost(home, ask, bool(instance), "is not connected any more")
            if instance and instance[0] != talk.link.instance and isinstance(ask, relay.Say):
                raise self._lost(home, ask, True, "was started anew meanwhile")

            def sent(at: bytes = talk.link.instance) -> None:
                instance[:] = [at]

            try:
                return await talk.ask(ask, sent)
            except LinkError:
                if self._talks.get(home.device) is talk:  # It ends in a moment.
                    await asyncio.sleep(0.01)

    async def _back(self, home: Home) -> _Talk | None:
        """The channel to `home`, once there is a link; None where there is none in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGAIN_SECONDS):
                while (talk := self._talks.get(home.device)) is None:
                    self._linked.clear()
                    await self._linked.wait()
                return talk
        return None

    @staticmethod
    def _lost(home: Home, ask: relay.Ask, sent: bool, how: str) -> UserError:
        if not sent:
            return RefusedError(f"{home.name} {how}; nothing was said to it.")
        if isinstance(ask, relay.Say):
            return UncertainError(
                f"{home.name} {how}, so these words may have arrived, or not; see it there, or with: "
                f"hhd attach {home.shown}"
            )
        return UncertainError(
            f"{home.name} {how}, so this may have been done, or not; see it with: hhd attach {home.shown}"
        )

    async def tell(self, device: DeviceId, message: relay.Keys) -> None:
        """Say what nobody answers, if there is a link."""
        talk = self._talks.get(device)
        if talk is not None:
            with contextlib.suppress(LinkError):
                await talk.tell(message)


def error(said: relay.Refused | relay.Over) -> UserError:
    """What a home says instead, as the error of who asked."""
    return error_of(Exit(said.exit), relay_safe.sentence(said.sentence) or "It was refused there.")
