"""What handoffs need of the other parts of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from hhd.node.control import ControlService
from hhd.transports.link import Channel, Link
from hhd_protocol import live
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId

Open = Callable[[], AbstractContextManager[ControlService]]


class Peering(Protocol):
    """Links to the other members (`hhd.node.peers`)."""

    def link(self, device: DeviceId) -> Link | None:
        """The link to a member, None if none is in use."""

    async def coming(self, device: DeviceId) -> Link | None:
        """The same, waited for where one is being agreed on or broke just now."""

    def serve(self, name: str, handler: Callable[[Channel, Link], Awaitable[None]]) -> None:
        """From now on `handler` serves the channels of this name that peers open."""

    def on_linked(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        """Begin `attend` with each link; it is cancelled when the link ends."""


class Syncing(Protocol):
    """Sessions brought to the other members (`hhd.node.sync.syncing`)."""

    async def wait_synced(self, session: SessionId, device: DeviceId, deadline: float | None = None) -> None:
        """Return once all that is durable here of a session now is durable at `device`.

        `deadline`: of the loop's clock; raises TimeoutError after it.
        """


class Running(Protocol):
    """Sessions that run in the daemon (`hhd.node.workers`)."""

    async def start(
        self, session: SessionId, folder: Path | None = None, model: str | None = None, *, noted: bool = False
    ) -> bool:
        """Run a session; False where it runs already. `noted`: on disk, that it should run as it is asked to here.
        Raises UserError."""

    async def look(self, session: SessionId) -> None:
        """Have what the newest checkpoint of a session says of its folder be as the folder is now, if that can be."""

    def look_ahead(self, session: SessionId) -> None:
        """It may soon be asked to `look`: what takes long of that may be made ready; nothing of the session changes."""

    async def ready(self, session: SessionId, head: CheckpointId) -> None:
        """Have a process wait for a session, its program loaded as it stands at `head`, nothing of it run.

        Raises UserError where the program does not load here, or is another then.
        """

    def unready(self, session: SessionId) -> None:
        """It does not come after all."""

    async def pause(self, session: SessionId, *, soft: bool = False) -> live.State | None:
        """Pause a session, durable when this returns; `soft`: an effect that runs is waited for."""

    async def halt(self, session: SessionId, *, soft: bool = False) -> None:
        """Pause a session that is to go elsewhere: its last step is durable, and no process has it, when this returns.

        That it should not run here is noted a little later.
        """

    def running(self) -> dict[SessionId, live.State]:
        """Return the sessions that have a process."""

    def chosen(self, session: SessionId) -> tuple[Path | None, str | None]:
        """Return the folder and the model that a session runs with."""

    def tell(self, session: SessionId, state: live.State) -> None:
        """Tell who is attached to a session that does not run here how it is."""
