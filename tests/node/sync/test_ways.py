"""What goes out to one peer: messages in order, and content at once or together with what comes."""

from __future__ import annotations

import asyncio
from typing import cast

from hhd.node.sync.ways import Way
from hhd.transports.link import Channel, Link, LinkError, Why


class Sent:
    """A channel that keeps what it is given, until `most` were."""

    def __init__(self, most: int) -> None:
        self.raws, self._most = list[bytes](), most

    async def send(self, raw: bytes) -> None:
        self.raws.append(raw)
        if len(self.raws) >= self._most:
            raise LinkError(Why.CLOSED, "It ended.")


def sent_by(way: Way, most: int, parts: list[list[bytes]]) -> list[bytes]:
    """What goes as content until so many parts went, or nothing has gone for as long as everything else has turns."""
    channel = Sent(most)

    async def next_parts() -> list[bytes]:
        return parts.pop(0)

    async def live() -> None:
        sending = asyncio.ensure_future(way.send_content(cast(Channel, channel), next_parts))
        for _ in range(20):
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(live())
    return channel.raws


def test_content_goes_at_once_or_waits_until_it_is_let_go_of() -> None:
    way = Way(link=cast(Link, None))
    way.let_go(at_once=False)
    assert sent_by(way, 9, [[b"1"], []]) == [] and way.content_waits
    way.let_go_what_waits()
    assert sent_by(way, 9, [[b"1", b"2"], [b"3"], []]) == [b"1", b"2", b"3"] and not way.content_waits
    way.let_go_what_waits()
    assert not way.content.is_set(), "nothing waits: nobody looks for it"
    way.let_go(at_once=True)
    assert sent_by(way, 9, [[b"4"], []]) == [b"4"]
