"""The channel "group" of one link: both sides tell each other the records of their group (`spec/peers.md`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hhd.node.roll import Roll
from hhd.transports.link import Channel
from hhd_protocol.gossip import Gossip, Joiner, parts
from hhd_protocol.limits import GOSSIP_MESSAGE_BYTES_MAX

GROUP = "group"


async def send_whole(channel: Channel, message: bytes) -> None:
    """Send a message of any length."""
    for part in parts(message):
        await channel.send(part)


async def receive_whole(channel: Channel, joiner: Joiner) -> bytes | None:
    """Return the next message of any length, None once the peer ended the channel; raises FormatError."""
    while (part := await channel.receive()) is not None:
        if (whole := joiner.add(part)) is not None:
            return whole
    return None


async def talk(channel: Channel, roll: Roll, settled: Callable[[], None]) -> None:
    """Speak of the group until the link ends; `settled` is called once all that the peer had has come.

    Raises LinkError when the link ends, FormatError where the peer breaks the rules, and what taking records raises.
    """
    machine = Gossip(roll.records)
    changed = asyncio.Event()
    turn = asyncio.Lock()

    async def say(messages: tuple[bytes, ...]) -> None:
        for message in messages:
            await send_whole(channel, message)

    async def pass_on() -> None:
        while True:
            await changed.wait()
            changed.clear()
            async with turn:
                await say(machine.changed(roll.records))

    stop = roll.on_change(changed.set)
    passing = asyncio.ensure_future(pass_on())
    try:
        async with turn:
            await say(machine.begin())
        joiner = Joiner(GOSSIP_MESSAGE_BYTES_MAX)
        while not passing.done() and (raw := await receive_whole(channel, joiner)) is not None:
            heard = machine.heard(raw)
            if heard.records:
                await roll.take(heard.records)
            async with turn:
                await say(heard.send)
            if machine.settled:
                settled()
        await passing  # Only an error ends it.
    finally:
        stop()
        passing.cancel()
