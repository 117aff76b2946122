"""What goes out to one peer over its link: messages on one channel, content on another."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hhd.transports.link import Channel, Link


@dataclass(eq=False)
class Way:
    """What goes out to one peer: messages in order, and whether there is content to send."""

    link: Link
    messages: deque[bytes] = field(default_factory=deque)
    stir: asyncio.Event = field(default_factory=asyncio.Event)
    content: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = field(default_factory=time.monotonic)
    heard: float = field(default_factory=time.monotonic)
    content_waits: bool = False
    """Whether there is content to send that is to go together with what comes."""

    def let_go(self, *, at_once: bool) -> None:
        """There is content to send: now, or once what waits is let go."""
        self.content_waits = not at_once
        if at_once:
            self.content.set()

    def let_go_what_waits(self) -> None:
        """Send the content that waits, if there is any."""
        if self.content_waits:
            self.let_go(at_once=True)

    async def say(self, channel: Channel) -> None:
        """Send messages as they come, until the link ends; raises LinkError."""
        while True:
            while self.messages:
                await channel.send(self.messages.popleft())
            self.stir.clear()
            if not self.messages:
                await self.stir.wait()

    async def send_content(self, channel: Channel, next_parts: Callable[[], Awaitable[list[bytes]]]) -> None:
        """Send content while there is some, until the link ends; raises LinkError."""
        while True:
            await self.content.wait()
            self.content.clear()
            while parts := await next_parts():
                for raw in parts:
                    await channel.send(raw)
