"""Which link to each device counts, where links begin, speak and end in any order and the machine hears of it later.

A driver has two sides. The network's side sees a link begin and end as it happens; another one may begin before the end
of the one before is seen. The machine's side takes one thing after another, each in its turn; what it says is carried
out later again. Between the two, what belongs to a link that was replaced is let go (`protocol/spec/sync.md`, Links):
the machine hears nothing of a link that it was not told of last, and nothing that it said for one link goes over
another.

    links.begin(peer, link), .end(peer, link), .woke()           at once, at the network's side
    links.told(peer, link), .ended(peer, link), .wakes(wake)     in the machine's turn, in the same order
    links.hears(peer, link), .stamp()                            in the machine's turn
    links.over(peer, stamp), .is_awake(stamp)                    where what was said in that turn is carried out
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hhd_protocol.ids import DeviceId

L = TypeVar("L")


@dataclass(frozen=True, kw_only=True)
class Stamp(Generic[L]):
    """What the machine knew when it said something: by device the link that it was told of last, and the last wake."""

    links: Mapping[DeviceId, L]
    wake: int


class Links(Generic[L]):
    """The links of one device, one to each other, of any type; they are told apart by identity.

    Each side has a state of its own, so that the two may live in two threads: a stamp is what passes between them.
    """

    def __init__(self) -> None:
        self._current: dict[DeviceId, L] = {}
        self._told: dict[DeviceId, L] = {}
        self._woke = self._wake = 0

    # At the network's side

    def begin(self, peer: DeviceId, link: L) -> None:
        """A link is up; one that was there before is of no use from now on, whenever it ends."""
        self._current[peer] = link

    def end(self, peer: DeviceId, link: L) -> bool:
        """A link ended; say whether it was the one in use."""
        if self._current.get(peer) is not link:
            return False
        del self._current[peer]
        return True

    def current(self, peer: DeviceId) -> L | None:
        """The link in use, None if there is none."""
        return self._current.get(peer)

    def all(self) -> Mapping[DeviceId, L]:
        """By device the links in use."""
        return self._current

    def woke(self) -> int:
        """The device slept: answers to what was asked before count no more. Returns what to tell `wakes`."""
        self._woke += 1
        return self._woke

    def over(self, peer: DeviceId, stamp: Stamp[L]) -> L | None:
        """The link over which goes what was said then; None: it was meant for one that was replaced, or ended."""
        link = self._current.get(peer)
        return link if link is not None and stamp.links.get(peer) is link else None

    def is_awake(self, stamp: Stamp[L]) -> bool:
        """Whether the device has not slept since that was said: else it is no answer to what is asked now."""
        return stamp.wake == self._woke

    # At the machine's side

    def told(self, peer: DeviceId, link: L) -> None:
        """The machine was told that this link began, and so that the one before it, if any, is no more."""
        self._told[peer] = link

    def hears(self, peer: DeviceId, link: L) -> bool:
        """Whether what came over this link is for the machine: it was told of no other since."""
        return self._told.get(peer) is link

    def ended(self, peer: DeviceId, link: L) -> bool:
        """A link ended: say whether the machine is to be told so, which knows of no other since."""
        if self._told.get(peer) is not link:
            return False
        del self._told[peer]
        return True

    def wakes(self, wake: int) -> None:
        """The machine was told of this wake."""
        self._wake = wake

    def stamp(self) -> Stamp[L]:
        """What goes with all that the machine said in this turn."""
        return Stamp(links=dict(self._told), wake=self._wake)
