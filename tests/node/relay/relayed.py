"""Devices whose terminals are at sessions of one another: real relays, stores and audiences, over links in memory.

A session is advanced by `work` in its store; its process is a stand-in, and a test tells what a process would.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.e2e.lab import call, says, text
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, Site
from tests.node.handoff.handing import until as holds_soon
from tests.node.two import NOW, Device

from hhd.base.errors import UserError
from hhd.node.control import ControlService
from hhd.node.forks import Worker
from hhd.node.relay.relays import Relays
from hhd.node.run_verbs import RunVerbs
from hhd.node.workers import Workers
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import live
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.statements import Role

E = TypeVar("E")

SCRIPT = [GLOB, says(call("bash", command="echo one")), says(text("Done."))]

SECONDS = 240.0
"""After which a test gives up."""


class Process:
    """Stands in for the process of a session: what is said to it is kept."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def say(self, message: Any) -> None:
        self.said.append(message)


@dataclass(eq=False)
class Desk(Site):
    """A device with relays beside its handoffs; `broken`: what a peer did that cost it the link."""

    broken: list[FormatError] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.workers = Workers(opened=self.opened, lanes=self.lanes)
        self.workers.noted.set()
        self.workers.start = self.start  # type: ignore[assignment]
        self.workers.pause = self.pause  # type: ignore[method-assign]
        self.relays = Relays(me=self.device.me.id, peers=self, workers=self.workers)  # type: ignore[arg-type]
        self.relays.moving = self.handoffs.moving
        self.handoffs.on_stage.append(self.relays.look)
        self.verbs = RunVerbs(self.workers)
        self.soon(self.relays.run())

    # Peering

    def connected(self) -> frozenset[DeviceId]:
        return frozenset(device for device in self.links if self.link(device) is not None)

    async def keep(self, link: Link) -> None:
        self.links[link.peer] = link
        begun = [asyncio.ensure_future(self._guarded(link, attend(link))) for attend in self.attending]
        with contextlib.suppress(LinkError):
            while True:
                channel = await link.accepted()
                begun.append(asyncio.ensure_future(self._guarded(link, self._serve(channel, link))))
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    async def _serve(self, channel: Channel, link: Link) -> None:
        await self.handlers[channel.name](channel, link)
        await channel.close()

    async def _guarded(self, link: Link, work: Any) -> None:
        try:
            await work
        except LinkError:
            pass
        except FormatError as error:
            self.broken.append(error)
            link.cut("the rules were broken")

    # Syncing

    async def wait_synced(self, session: SessionId, device: DeviceId, deadline: float | None = None) -> None:
        await super().wait_synced(session, device, deadline)
        cast(Desk, self.house.site(device)).relays.look(session)

    async def bring(self, session: SessionId, *names: str) -> None:
        """What is here of a session comes to other devices."""
        for name in names:
            other = cast(Desk, self.house.sites[name])
            await self.wait_synced(session, other.device.me.id)

    # Running

    async def start(self, session: SessionId, folder: Path | None = None, model: str | None = None, **_: Any) -> bool:
        going = self.workers.going(session)
        if going.worker is not None:
            return False
        self.started.append(session)
        going.worker = cast(Worker, Process())
        going.rested.clear()
        going.tell(live.State(name="running", sentence="", ways=(), effect="", status=0))
        return True

    async def pause(self, session: SessionId, *, soft: bool = False) -> live.State | None:
        self.soft.append(soft)
        going = self.workers.at_hand(session)
        if going is None or going.worker is None:
            return None
        going.worker = None
        going.rested.set()
        going.tell(live.State(name="paused", sentence="It is paused.", ways=(), effect="", status=0))
        return going.state

    def running(self) -> dict[SessionId, live.State]:
        return self.workers.running()

    def tell(self, session: SessionId, state: live.State) -> None:
        self.told.append(state)
        self.workers.tell(session, state)

    def process(self, session: SessionId) -> Process:
        going = self.workers.at_hand(session)
        assert going is not None and going.worker is not None
        return cast(Process, going.worker)

    # What a test does

    def tells(self, session: SessionId, event: live.Event) -> None:
        """As if the process of the session said it."""
        self.workers.going(session).tell(event)

    async def in_store(self, act: Callable[[ControlService], E]) -> E:
        return await self.workers.store.look(act)

    def terminal(self, session: SessionId | str, position: int | None = 0, by: str = "pts/1") -> Terminal:
        return Terminal(self, session if isinstance(session, str) else session.hex(), position, by)


class Terminal:
    """One who is attached at a device: what it was told, in order."""

    def __init__(self, desk: Desk, name: str, position: int | None, by: str) -> None:
        self.desk, self.name, self.by = desk, name, by
        self.events: list[live.Event] = []
        self.error: UserError | None = None
        self.reads = asyncio.Event()
        self.reads.set()
        self.task = asyncio.get_running_loop().create_task(self._read(position))

    async def _read(self, position: int | None) -> None:
        try:
            async with contextlib.aclosing(self.desk.verbs.attach(self.name, position, self.by)) as events:  # type: ignore[type-var]
                async for value in events:
                    self.events.append(live.decoded(cast(Any, value)))
                    await self.reads.wait()
        except UserError as error:
            self.error = error
        except RuntimeError:  # Its daemon is down, and the threads with it.
            pass

    @property
    def over(self) -> bool:
        return self.task.done()

    def of(self, kind: type[E]) -> list[E]:
        return [one for one in self.events if isinstance(one, kind)]

    @property
    def transcript(self) -> bytes:
        """All of it that came, once each byte, from the first one that came."""
        pieces = self.of(live.Emitted)
        at = pieces[0].position if pieces else 0
        for one in pieces:
            assert one.position == at, "neither a gap nor a byte twice"
            at += len(one.piece)
        return b"".join(one.piece for one in pieces)

    @property
    def notices(self) -> list[str]:
        return [one.text for one in self.of(live.Notice)]

    async def until(self, kind: type[E], holds: Callable[[E], object] = lambda _: True) -> E:
        found: list[E] = []

        def came() -> bool:
            found[:] = [one for one in self.of(kind) if holds(one)]
            assert found or not self.over, (self.error, self.events)
            return bool(found)

        try:
            await until(came)
        except TimeoutError:
            raise AssertionError(f"it was not told; what was: {self.events}") from None
        return found[0]

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


class Home(House):
    """Devices with relays."""

    made = Desk

    def desk(self, name: str) -> Desk:
        return cast(Desk, self.sites[name])


@contextlib.asynccontextmanager
async def home(devices: list[Device]) -> AsyncIterator[Home]:
    """All daemons up and linked, and down at the end."""
    made = Home(devices)
    for name in made.devices:
        await made.up(name)
    try:
        yield made
    finally:
        for name in list(made.sites):
            await made.kill(name)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, on a machine that may be busy."""
    await holds_soon(lambda: bool(holds()), SECONDS)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test to its end; what waits for ever fails."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await test

    asyncio.run(bounded())


def role(two: list[Device], role: Role) -> None:
    """The laptop has another role from now on, as far as the desktop knows."""
    two[0].group.revoke(two[1].me.id, NOW)
    two[0].group.add(two[1].me.public, "laptop", role, NOW)


def pages() -> live.Question:
    """A question of a command, as it goes to a screen."""
    asked = ("Run a command?\n", "make test\n")
    shown = sha256("".join(asked).encode()).digest()
    return live.Question(id="7.1", pages=asked, shown=shown, always="")
