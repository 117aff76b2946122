"""A link that takes the place of another one to the same device: what is said on it is heard, however the two overlap.

Both ends are told of a replaced link in their own time, and its end may be noticed after the next one was begun.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
from tests.node.sync.linked import Peering, grouped
from tests.node.sync.parts import part_of
from tests.transports.devices import device_named

from hhd.base.errors import RolledBackError
from hhd.node import around
from hhd.node.sync import syncing
from hhd.node.sync.answered import ANSWERED_MS
from hhd.node.sync.out import Out
from hhd.node.sync.syncing import Syncing
from hhd.store.errors import BusyError
from hhd.transports.link import Channel, Link, LinkError, Why
from hhd_protocol.holding import Clocks
from hhd_protocol.ids import DeviceId, Incarnation, SessionId, StatementId
from hhd_protocol.sync import decode_message, encode_message
from hhd_protocol.sync.messages import VERSION, Answered, Buckets, Hello, Message


class Wire:
    """One link to the desktop, with what was said on it; `end` ends it."""

    def __init__(self) -> None:
        self.peer, self.error = device_named("desktop").id, None
        self.said: list[Message] = []
        self.ended = asyncio.Event()
        self.coming: asyncio.Queue[bytes] = asyncio.Queue()

    async def open(self, name: str, *, urgent: bool = False) -> Wire:
        return self

    async def send(self, raw: bytes) -> None:
        if self.ended.is_set():
            raise LinkError(Why.CLOSED, "It ended.")
        self.said.append(decode_message(raw))

    async def receive(self) -> bytes:
        return await self.coming.get()

    def read_ahead(self, bytes_more: int) -> None:
        pass

    def receive_more(self) -> bytes | None:
        return None

    async def lives(self, attend: Callable[[Link], Awaitable[None]]) -> None:
        """As `Links.keep`: attended to until it ends, and cancelled then."""
        attending = asyncio.ensure_future(attend(cast(Link, self)))
        await self.ended.wait()
        attending.cancel()
        await asyncio.gather(attending, return_exceptions=True)


def laptop(folder: Path) -> tuple[Syncing, Peering]:
    grouped(folder, "laptop", "desktop")
    part, peers, _ = part_of(folder)
    return part, peers


@pytest.mark.parametrize("order", ["before the end of the other is noticed", "in the moment that it is", "after it"])
def test_a_link_that_takes_the_place_of_another_is_heard_whenever_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    part, peers = laptop(tmp_path)
    (attend,) = peers.attending
    hello = encode_message(
        Hello(version=VERSION, incarnation=Incarnation(bytes(16)), round=7, count=1, root=bytes(32), holding="")
    )
    first, second = Wire(), Wire()
    lives = list[asyncio.Future[None]]()

    def told(one: around.Told) -> None:
        """What is said to other processes while the end of the first link is dealt with."""
        if order.startswith("in") and not one.connected and first.ended.is_set() and len(lives) == 1:
            lives.append(asyncio.ensure_future(attend(cast(Link, second))))

    monkeypatch.setattr(around, "write", told)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        lives.append(asyncio.ensure_future(first.lives(attend)))
        while not first.said:
            await asyncio.sleep(0.001)
        if order.startswith("before"):
            lives.append(asyncio.ensure_future(attend(cast(Link, second))))
            while not second.said:
                await asyncio.sleep(0.001)
        first.ended.set()
        await lives[0]
        if order.startswith("after"):
            lives.append(asyncio.ensure_future(attend(cast(Link, second))))
        answering = asyncio.ensure_future(peers.serving["sync"](cast(Channel, second), cast(Link, second)))
        second.coming.put_nowait(hello)
        async with asyncio.timeout(240):
            while not any(isinstance(one, Buckets) for one in second.said):
                await asyncio.sleep(0.001)
        assert part.linked() == {second.peer} and len(lives) == 2
        stale = asyncio.ensure_future(peers.serving["sync"](cast(Channel, first), cast(Link, first)))
        first.coming.put_nowait(hello)  # The end of its channels may come last of all.
        second.coming.put_nowait(hello)
        async with asyncio.timeout(240):
            while sum(isinstance(one, Buckets) for one in second.said) < 2:
                await asyncio.sleep(0.001)
        assert sum(isinstance(one, Buckets) for one in second.said) == 2, "nothing is answered on the one for the other"
        for one in (stale, answering, lives[1]):
            one.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        assert part.linked() == frozenset() and not part._engine.machine.peers
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_what_a_message_brought_for_others_is_done_though_its_link_ends_meanwhile(tmp_path: Path) -> None:
    part, peers = laptop(tmp_path)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        wire = Wire()
        lives = asyncio.ensure_future(wire.lives(peers.attending[0]))
        while not wire.said:
            await asyncio.sleep(0.001)
        acting = asyncio.ensure_future(part.act(part._engine.woke))  # It says Hello to each device.
        await asyncio.sleep(0)
        acting.cancel()
        async with asyncio.timeout(240):
            while len(wire.said) < 2:
                await asyncio.sleep(0.001)
        assert acting.cancelled() and all(isinstance(one, Hello) for one in wire.said)
        wire.ended.set()
        await lives
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_what_was_said_for_a_link_that_was_replaced_does_not_go_over_the_next(tmp_path: Path) -> None:
    part, peers = laptop(tmp_path)
    busy, go = threading.Event(), threading.Event()

    def late() -> Out:
        """A turn of the engine that is long at work for the first link."""
        busy.set()
        assert go.wait(240)
        return Out(messages=[(first.peer, encode_message(Answered(round=70)))])

    first, second = Wire(), Wire()

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        lives = [asyncio.ensure_future(first.lives(peers.attending[0]))]
        while not first.said:
            await asyncio.sleep(0.001)
        acting = asyncio.ensure_future(part.act(late))
        while not busy.is_set():
            await asyncio.sleep(0.001)
        lives.append(asyncio.ensure_future(second.lives(peers.attending[0])))
        while part._links.current(second.peer) is None or part._links.all()[second.peer].link is not cast(Link, second):
            await asyncio.sleep(0.001)
        go.set()
        await acting
        while not second.said:
            await asyncio.sleep(0.001)
        assert [type(one) for one in second.said] == [Hello], "what the other end hears first is a question anew"
        for one in (first, second):
            one.ended.set()
        await asyncio.gather(*lives)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_an_answer_that_was_being_taken_when_the_device_woke_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, peers = laptop(tmp_path)
    busy, go = threading.Event(), threading.Event()
    told = list[around.Told]()
    monkeypatch.setattr(around, "write", told.append)

    def answering() -> Out:
        busy.set()
        assert go.wait(240)
        return Out(answered={wire.peer})

    wire = Wire()

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        lives = asyncio.ensure_future(wire.lives(peers.attending[0]))
        while not wire.said:
            await asyncio.sleep(0.001)
        acting = asyncio.ensure_future(part.act(answering))
        while not busy.is_set():
            await asyncio.sleep(0.001)
        now = around.clocks()
        slept = Clocks(boot_ms=now.boot_ms + 10**7, awake_ms=now.awake_ms)
        monkeypatch.setattr(around, "clocks", lambda: slept)
        before = len(told)
        part._stir.set()
        while len(told) == before:  # That it woke is told at once.
            await asyncio.sleep(0.001)
        go.set()
        await acting
        while len(wire.said) < 2:  # It is asked anew.
            await asyncio.sleep(0.001)
        assert all(not one.answered for one in told)
        await part.act(lambda: Out(answered={wire.peer}))
        assert told[-1].answered == {wire.peer}, "what is answered after that counts"
        wire.ended.set()
        await lives
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_who_rests_for_want_of_an_answer_is_told_of_one_of_a_full_member_in_time_and_of_none_of_who_only_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, peers = laptop(tmp_path)
    told, heard, wire = list[around.Told](), list[int](), Wire()
    clock, full, alone = [around.now_ms()], [False], SessionId(StatementId(bytes(32)))
    monkeypatch.setattr(around, "write", told.append)
    monkeypatch.setattr(around, "now_ms", lambda: clock[0])
    monkeypatch.setattr(around, "clocks", lambda: Clocks(boot_ms=clock[0], awake_ms=clock[0]))
    monkeypatch.setattr(peers, "is_full", lambda device: device != wire.peer or full[0])
    monkeypatch.setattr(peers, "only_stores", lambda device: not peers.is_full(device))

    async def turn(ms: int) -> int:
        """How often was told so far, `ms` later."""
        clock[0] += ms
        part._stir.set()
        while part._stir.is_set():
            await asyncio.sleep(0.001)
        return len(heard)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        part.answered.alone.add(alone)
        part.heard_from.append(lambda: heard.append(clock[0]))
        await turn(60_000)
        lives = asyncio.ensure_future(wire.lives(peers.attending[0]))
        while not wire.said:
            await asyncio.sleep(0.001)
        await part.act(lambda: Out(answered={wire.peer}))
        assert await turn(60_000) == 0 and not told[-1].answered and not told[-1].connected
        full[0] = True
        part._regroup()
        assert (told[-1].connected, told[-1].linked_ms) == ({wire.peer}, clock[0])
        assert await turn(60_000) == 0, "as a full member it has not answered"
        await part.act(lambda: Out(answered={wire.peer}))
        assert await turn(0) == await turn(60_000) == 1, "once for each answer"
        slept = Clocks(boot_ms=clock[0] + 10**7, awake_ms=clock[0])
        monkeypatch.setattr(around, "clocks", lambda: slept)
        await turn(0)
        assert told[-1].alone == {alone} and told[-1].woke_ms == clock[0], "it is not forgotten at the next wake"
        await part.act(lambda: Out(answered={wire.peer}))
        assert [await turn(ms) for ms in (0, ANSWERED_MS - 1, 1)] == [1, 1, 2]
        wire.ended.set()
        await lives
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_a_link_that_began_while_the_store_could_not_be_read_is_told_of_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, peers = laptop(tmp_path)
    begins, tries = part._engine.linked, list[DeviceId]()
    monkeypatch.setattr(syncing, "LINK_AGAIN_SECONDS", 0.01)

    def linked(peer: DeviceId, *, sealed: bool = False) -> Out:
        tries.append(peer)
        if len(tries) < 3:
            raise RolledBackError("The store cannot be read now.")
        return begins(peer, sealed=sealed)

    monkeypatch.setattr(part._engine, "linked", linked)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        wire = Wire()
        lives = asyncio.ensure_future(wire.lives(peers.attending[0]))
        while not wire.said:
            await asyncio.sleep(0.001)
        assert len(tries) == 3 and isinstance(wire.said[0], Hello)
        wire.ended.set()
        await lives
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))


def test_content_that_could_not_be_read_is_tried_again_in_the_next_turn_and_nothing_is_looked_for_where_none_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, _ = laptop(tmp_path)
    wire, busy = Wire(), [True]

    def next_part(peer: DeviceId) -> bytes | None:
        if busy[0]:
            raise BusyError("Another process is writing.")
        return None

    monkeypatch.setattr(part._engine, "next_part", next_part)

    async def live() -> None:
        running = asyncio.create_task(part.run())
        await part._ready.wait()
        lives = asyncio.ensure_future(wire.lives(part._attend))
        while not wire.said:
            await asyncio.sleep(0.001)
        way = part._links.current(wire.peer)
        assert way is not None
        assert await part._next_parts(way) == [] and way.content_waits
        busy[0] = False
        part._stir.set()
        while way.content_waits:  # Let go of in a turn.
            await asyncio.sleep(0.001)
        assert await part._next_parts(way) == [] and not way.content_waits
        wire.ended.set()
        await lives
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(live(), 60))
