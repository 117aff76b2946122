"""One link to each device: of several, both ends keep the same one (`spec/link.md`, One link).

Two devices that dial each other at the same moment have two links, and a device that lost a link without a word, or
started anew, makes a second one while the other still holds the first. Which one stays follows from what both know:
the start of the other's daemon, who dialled, and which dial it was. The older link stays only if it gives a sign of
life, since a new one may be there because the older is dead.
"""

from __future__ import annotations

from collections.abc import Callable

from hhd.transports.link import Link, LinkError, Why
from hhd_protocol.ids import DeviceId

ANSWER_SECONDS = 0.5
"""For the sign of life of an older link: some round trips, or one and a packet lost."""


class OnePerDevice:
    """The links of a device, at most one to each other device."""

    def __init__(self, linked: Callable[[Link], None], lost: Callable[[Link, LinkError], None]) -> None:
        """`linked` is told of each link that stays, `lost` of its end; of one device in turn."""
        self._linked, self._lost = linked, lost
        self._links: dict[DeviceId, Link] = {}

    def link(self, peer: DeviceId) -> Link | None:
        """The link to `peer`, None if there is none."""
        return self._links.get(peer)

    def all(self) -> list[Link]:
        """All of them."""
        return list(self._links.values())

    async def offer(self, fresh: Link) -> bool:
        """Take a link that was just made, dialled or not; say whether it is the one to its device. If not, it ends."""
        while (old := self._links.get(fresh.peer)) is not None and old is not fresh and old.error is None:
            if old.instance != fresh.instance:
                old.cut("the device started anew")
            elif fresh.precedence > old.precedence:
                self._replace(old, fresh)
                await old.close("another link stays")
                return fresh.error is None
            elif await old.answers(ANSWER_SECONDS) and self._links.get(fresh.peer) is old:
                await fresh.close("another link stays")
                return False
        if fresh.error is not None:
            return False
        if old is not fresh:
            self._replace(old, fresh)
        return True

    def _replace(self, old: Link | None, fresh: Link) -> None:
        if old is not None:
            self._ended(old)
        self._links[fresh.peer] = fresh
        fresh.when_over(lambda: self._ended(fresh))
        self._linked(fresh)

    def _ended(self, link: Link) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self._lost(link, link.error or _REPLACED)


_REPLACED = LinkError(Why.CLOSED, "Another link to the same device stays.")
