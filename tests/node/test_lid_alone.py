"""A session that rests since nobody answered after a wake, when the network comes back minutes later: it goes on by
itself only where none of those who are linked then, or a moment later, has taken it over.

The laptop's part that syncs runs, with links that the test brings up; the other devices' engines are in this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.driven import Person
from tests.node.handoff.handing import until
from tests.node.sync import wired
from tests.node.sync.linked import Hallway, Idle
from tests.node.test_lid import SCRIPT, Clock, Device, awake

from hhd.base.errors import UserError
from hhd.effects.cancel import Interrupted
from hhd.node import around, should_run, stored_session
from hhd.node.ended import End
from hhd.node.refused import AloneError
from hhd.node.sync.syncing import Syncing
from hhd.transports.link import Channel, Link
from hhd_protocol.holding import Clocks
from hhd_protocol.ids import DeviceId, SessionId

pytestmark = needs_agent

MINUTES_MS = 300_000
LOOK_MS, SILENT_MS = 250, 8_000


@dataclass(eq=False)
class Line:
    """One link of the laptop to another device; what that one says is kept back while it is `silent`."""

    scene: Scene
    peer: DeviceId
    silent: bool = False
    error: None = None
    coming: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    held: list[bytes] = field(default_factory=list)

    async def open(self, name: str, *, urgent: bool = False) -> Line:
        return self

    async def send(self, raw: bytes) -> None:
        self.scene.do(self.peer, "heard", raw)

    async def receive(self) -> bytes:
        return await self.coming.get()

    def read_ahead(self, bytes_more: int) -> None:
        pass

    def receive_more(self) -> bytes | None:
        return None

    def comes(self, raw: bytes) -> None:
        self.held.append(raw)
        while self.held and not self.silent:
            self.coming.put_nowait(self.held.pop(0))


@dataclass
class Scene(Hallway):
    """The laptop, whose session was left running when its lid was closed, and the others, which have it, too."""

    alice: wired.Person
    laptop: Device
    session: SessionId
    clock: Clock = field(default_factory=Clock)
    lines: dict[DeviceId, Line] = field(default_factory=dict)
    tasks: list[asyncio.Future[None]] = field(default_factory=list)
    begins: int = 0
    """How often the session's process was begun since somebody answered."""
    ended: End | type[UserError] | None = None
    """How its process ended last; INTERRUPTED: it stood at its door, and waits there."""
    part: Syncing = field(init=False)

    # Links

    def do(self, peer: DeviceId, what: str, *raws: bytes) -> None:
        """Another device hears of the laptop, and says what it says to that."""
        me, one = self.laptop.me.id, self.alice.devices[peer]
        self.alice._do(one, getattr(one.engine, what)(me, *raws))
        while self.alice.wires:
            source, _, raw = self.alice.wires.popleft()
            self.lines[source].comes(raw)

    def linked(self, name: str, *, silent: bool = False) -> Line:
        peer = self.alice[name].id
        line = self.lines[peer] = Line(self, peer, silent)
        self.alice.links.add(frozenset((peer, self.laptop.me.id)))
        self.do(peer, "linked")
        link = cast(Link, line)
        self.tasks.append(asyncio.ensure_future(self.attending[0](link)))
        self.tasks.append(asyncio.ensure_future(self.serving["sync"](cast(Channel, line), link)))
        return line

    def speaks(self, line: Line) -> None:
        line.silent = False
        while line.held:
            line.coming.put_nowait(line.held.pop(0))

    async def answered(self, name: str) -> None:
        await until(lambda: self.alice[name].id in self.part.answered.by)

    # The session

    def runs(self) -> str:
        return (self.laptop.repo / "runs").read_text()

    def begin(self) -> None:
        """Its process: it is at the door before the next command, and waits there if it has to."""
        with mock.patch.object(stored_session, "time", SimpleNamespace(sleep=_not_now)):
            try:
                self.ended = self.laptop.go_here(self.session).end
            except UserError as error:
                self.ended = type(error)

    def answer(self) -> None:
        """What the part that has it run does at the word that it may go on."""
        self.begins += 1
        self.begin()

    async def passes(self, ms: int) -> None:
        """Time passes; a process that waits at its door looks again."""
        for _ in range(ms // LOOK_MS):
            self.clock.sleep(LOOK_MS / 1000)
            self.part._stir.set()
            await until(lambda: not self.part._stir.is_set())
            if self.begins and self.ended is End.INTERRUPTED:
                self.begin()


def _not_now(_: float) -> None:
    raise Interrupted


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with wired.person(tmp_path / "stores", "laptop", "tablet", "desktop") as alice:
        laptop = Device(folder=tmp_path / "laptop", script=SCRIPT, rules={"allow": []}, wire=alice["laptop"])
        session = laptop.create()
        assert laptop.go_here(session).end is End.WAITING
        for name in ("tablet", "desktop"):
            alice.link("laptop", name)
        alice.noticed("laptop", session)
        assert alice.pump()
        alice.cut("laptop")
        assert laptop.go_here(session, Person(answers=["y"])).end is End.WAITING
        should_run.note(laptop.store, should_run.Note(session, None, None))
        laptop.rules = {"allow": ["bash"]}
        yield Scene(alice, laptop, session)


@contextmanager
def _clocks(scene: Scene) -> Iterator[None]:
    with awake(scene.clock), mock.patch.object(around, "clocks", lambda: Clocks(boot_ms=0, awake_ms=0)):
        yield


def tried(scene: Scene, go: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do `go` minutes after the laptop woke without a network, when its session has ended for want of an answer."""

    async def live() -> None:
        scene.part = Syncing(
            me=scene.laptop.me,
            peers=scene,
            roll=scene,
            workers=Idle(),
            opened=lambda: scene.alice.store_of("laptop"),
            random=os.urandom,
        )
        running = asyncio.create_task(scene.part.run())
        await scene.part._ready.wait()
        scene.begin()
        assert scene.ended is End.INTERRUPTED, "it waits for the others"
        await scene.passes(10_000)
        scene.begin()
        assert scene.ended is AloneError
        scene.clock.sleep(MINUTES_MS / 1000)
        assert scene.runs() == "x\n"
        scene.part.heard_from.append(scene.answer)
        try:
            await go()
        finally:
            for task in (running, *scene.tasks):
                task.cancel()
            await asyncio.gather(running, *scene.tasks, return_exceptions=True)

    with _clocks(scene):
        asyncio.run(asyncio.wait_for(live(), 60))


@pytest.mark.parametrize(
    ("how", "taken_over"),
    [("is silent at first", True), ("is linked a moment later", True), ("is silent at first", False)],
)
def test_it_goes_on_by_itself_unless_one_that_answers_later_has_taken_it_over(
    scene: Scene, how: str, taken_over: bool
) -> None:
    if taken_over:
        scene.alice.takes_over("desktop", scene.session)
        scene.alice.noticed("desktop", scene.session)

    async def go() -> None:
        silent = how.startswith("is silent")
        line = scene.linked("desktop", silent=True) if silent else None
        scene.linked("tablet")
        await scene.answered("tablet")
        await scene.passes(SILENT_MS if silent else LOOK_MS)
        assert scene.runs() == "x\n" and not scene.begins, "the desktop may have it"
        if line is None:
            scene.linked("desktop")
        else:
            scene.speaks(line)
        await scene.answered("desktop")
        await scene.passes(10_000)
        assert scene.begins and scene.ended is not End.INTERRUPTED
        assert scene.runs() == ("x\n" if taken_over else "x\nx\n")

    tried(scene, go)
