"""What relaying needs of the other parts of the daemon, and what they need of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.transports.link import Channel, Link
from hhd_protocol import live
from hhd_protocol.ids import DeviceId, SessionId

if TYPE_CHECKING:
    from hhd.node.relay.listing import Told


@dataclass(frozen=True, kw_only=True)
class Home:
    """The device at which a session runs, and what it is called here."""

    session: SessionId
    device: DeviceId
    name: str
    here: bool

    @property
    def shown(self) -> str:
        """Enough of the session's id to type."""
        return self.session.hex()[:12]


class Peering(Protocol):
    """Links to the other members (`hhd.node.peers`)."""

    def connected(self) -> frozenset[DeviceId]:
        """The members with a link in use now."""

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member, None if none is in use."""

    async def coming(self, device: DeviceId) -> Link | None:
        """The same, waited for where one is being agreed on or broke just now."""

    def serve(self, name: str, handler: Callable[[Channel, Link], Awaitable[None]]) -> None:
        """From now on `handler` serves the channels of this name that peers open."""

    def on_linked(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        """Begin `attend` with each link; it is cancelled when the link ends."""


class Elsewhere(Protocol):
    """Sessions that run at other devices, as the verbs on running sessions ask for them (`hhd.node.relay.relays`)."""

    async def away(self, name: str) -> Home | None:
        """Where the session that `name` means runs, None where that is here, or it is for this device to say no."""

    def attach(self, name: str, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """What happens in a session, wherever it runs, and goes to."""

    async def say(self, away: Home, text: str, by: str) -> Heard:
        """Say words to a session at another device."""

    async def answer(self, away: Home, id: str, *, shown: bytes, choice: str, message: str, by: str) -> Counted:
        """Answer what it asks."""

    async def pause(self, away: Home) -> Rested:
        """Pause it there."""

    async def resume(self, away: Home) -> Begun:
        """Let it go on there."""

    async def told(self) -> Told | None:
        """What other devices say of their sessions, None where this one keeps sessions, or may know of none."""

    async def decide_of(self, away: Home, verb: str, given: Mapping[str, Any]) -> Asked | Decided | Uncertain:
        """Look at what a session at another device waits with, or decide it: one of `DECIDING` (`hhd.node.remote`)."""

    async def keys(self, session: str, line: str, by: str) -> bool:
        """Show the others what is typed here; False where the session is watched nowhere else."""
