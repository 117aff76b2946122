"""What the part that syncs needs of the other parts of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from hhd.transports.link import Channel, Link
from hhd_protocol.ids import DeviceId, SessionId


class Peering(Protocol):
    """Links to the other members (`hhd.node.peers`)."""

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member."""

    def serve(self, name: str, handler: Callable[[Channel, Link], Awaitable[None]]) -> None:
        """Who serves channels of a name."""

    def on_linked(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        """Who lives with each link."""


class Members(Protocol):
    """Who is a member now (`hhd.node.roll`)."""

    def is_full(self, device: DeviceId) -> bool:
        """Whether a device may read everything."""

    def only_stores(self, device: DeviceId) -> bool:
        """Whether a device keeps sealed bytes, and reads nothing."""

    def on_change(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Hear of changes."""


class Running(Protocol):
    """Sessions that run here (`hhd.node.workers`)."""

    on_step: list[Callable[[SessionId], None]]
    on_intent: list[Callable[[SessionId], None]]
    on_person: list[Callable[[SessionId], None]]

    def looked_again(self, session: SessionId) -> None:
        """It may not be this device's any more."""

    def running(self) -> Iterable[SessionId]:
        """The sessions that have a process."""
