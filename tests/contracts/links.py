"""What every transport must do, whatever carries it: subclass `LinkContract` and say how its devices are made.

Nothing here knows of sockets, addresses that mean something, or certificates. A transport may be slow, but not lossy:
what it does when the other end is gone without a word is asked of `World.silence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from hhd.transports import one as one_link
from hhd.transports.link import PAIR, Channel, Link, LinkError, Listener, Transport, Why
from hhd.transports.one import OnePerDevice
from hhd.transports.stream import Pace
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import LINK_CHANNELS_MAX, LINK_MESSAGE_BYTES_MAX, LINK_WINDOW_BYTES

QUICK = Pace(
    hello_seconds=30, keepalive_seconds=0.05, silence_seconds=0.15, wake_seconds=0.15, slept_seconds=0.02,
    look_seconds=0.02, close_seconds=1,
)  # fmt: skip
"""A link that notices within a quarter of a second that the other end is gone. Where this process stood still for
longer than two looks, it takes that for sleep and asks again, so a busy machine ends no link of a test."""

LARGE = bytes(range(256)) * 4096
assert len(LARGE) == LINK_MESSAGE_BYTES_MAX


INSTANCE = b"the first start."


@dataclass
class Trust:
    """Whom a device trusts, and whether it has a code open."""

    members: set[DeviceId] = field(default_factory=set)
    open: bool = False
    asked: list[DeviceId] = field(default_factory=list)

    def trusted(self, device: DeviceId) -> bool:
        self.asked.append(device)
        return device in self.members

    def pairing_open(self) -> bool:
        return self.open


@dataclass
class Device:
    """One device with a transport."""

    id: DeviceId
    transport: Transport
    trust: Trust
    came: asyncio.Queue[Link] = field(default_factory=asyncio.Queue)
    listener: Listener | None = None

    async def listen(self) -> None:
        async def accept(link: Link) -> None:
            self.came.put_nowait(link)
            await link.ended()

        self.listener = await self.transport.listen(accept)

    async def dial(self, other: Device, peer: DeviceId | None) -> Link:
        assert other.listener is not None
        host, port = other.listener.addresses[-1]
        return await self.transport.dial("127.0.0.1" if host == "0.0.0.0" else host, port, peer)


class World(Protocol):
    """Devices that can reach one another, of one transport."""

    def device(self, name: str, pace: Pace | None = None, *, instance: bytes = INSTANCE) -> Device:
        """Make a device that trusts nobody yet; it is stopped with the world. The same name is the same device."""

    def silence(self) -> None:
        """From now on nothing gets through between any two devices, and nobody is told."""


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine; what has not ended after a minute never would."""

    async def within() -> None:
        async with asyncio.timeout(240):
            await work

    asyncio.run(within())


async def both(first: Awaitable[Any], second: Awaitable[Any]) -> tuple[Any, Any]:
    """Wait for two things that need one another."""
    a, b = await asyncio.gather(first, second)
    return a, b


@dataclass
class Linked:
    """Alice's laptop and desktop, and the link between them seen from both."""

    laptop: Device
    desktop: Device
    dialled: Link
    came: Link

    async def channel(self, name: str = "sync", *, urgent: bool = False) -> tuple[Channel, Channel]:
        """A channel as it is at the laptop, which opened it, and at the desktop."""
        here = await self.dialled.open(name, urgent=urgent)
        return here, await self.came.accepted()


class LinkContract:
    """The suite; `worlds` is what a transport's tests provide."""

    @pytest.fixture(autouse=True)
    def _busy_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A link that lives gives a sign of life, however long this process stands still meanwhile."""
        monkeypatch.setattr(one_link, "ANSWER_SECONDS", 30)

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        """A world of the transport under test."""
        raise NotImplementedError
        yield

    @asynccontextmanager
    async def linked(self, pace: Pace | None = None) -> AsyncIterator[tuple[World, Linked]]:
        async with self.world() as world:
            laptop, desktop = world.device("laptop", pace), world.device("desktop", pace)
            laptop.trust.members.add(desktop.id)
            desktop.trust.members.add(laptop.id)
            await desktop.listen()
            link = await laptop.dial(desktop, desktop.id)
            yield world, Linked(laptop, desktop, link, await desktop.came.get())

    def on_link(self, test: Callable[[Linked], Awaitable[None]], pace: Pace | None = None) -> None:
        async def work() -> None:
            async with self.linked(pace) as (_, linked):
                await test(linked)

        run(work())

    # Who is there

    def test_both_ends_know_who_is_there_and_agree_on_the_version(self) -> None:
        async def test(two: Linked) -> None:
            assert (two.dialled.peer, two.came.peer) == (two.desktop.id, two.laptop.id)
            assert two.dialled.version == two.came.version == 1
            assert two.dialled.dialled and not two.came.dialled
            assert two.dialled.trusted and two.came.trusted
            assert two.dialled.precedence == two.came.precedence
            assert two.laptop.id in two.desktop.trust.asked and two.desktop.id in two.laptop.trust.asked

        self.on_link(test)

    def test_a_stranger_is_not_let_in_and_a_member_beside_it_is(self) -> None:
        async def work() -> None:
            async with self.linked() as (world, two):
                stranger = world.device("stranger")
                stranger.trust.members.add(two.desktop.id)
                for peer in (two.desktop.id, None):
                    with pytest.raises(LinkError) as caught:
                        await stranger.dial(two.desktop, peer)
                    assert caught.value.why is Why.REFUSED
                assert two.desktop.came.empty()
                again = await two.laptop.dial(two.desktop, two.desktop.id)
                assert again.peer == two.desktop.id

        run(work())

    def test_a_device_that_is_not_the_dialled_one_gets_no_link(self) -> None:
        async def work() -> None:
            async with self.linked() as (world, two):
                impostor = world.device("impostor")
                impostor.trust.members.add(two.laptop.id)
                await impostor.listen()
                two.laptop.trust.members.add(impostor.id)  # A member even, but not the one that was dialled.
                with pytest.raises(LinkError) as caught:
                    await two.laptop.dial(impostor, two.desktop.id)
                assert caught.value.why is Why.STRANGER
                assert impostor.came.empty()

        run(work())

    def test_a_device_that_this_one_trusts_no_more_is_not_linked_to(self) -> None:
        async def test(two: Linked) -> None:
            two.laptop.trust.members.clear()
            with pytest.raises(LinkError) as caught:
                await two.laptop.dial(two.desktop, two.desktop.id)
            assert caught.value.why is Why.STRANGER

        self.on_link(test)

    def test_a_revoked_device_is_refused_and_its_living_link_is_cut_at_once(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()
            await here.send(b"kept back")
            assert await two.dialled.answers(30)  # By now it has come.
            two.desktop.trust.members.clear()
            two.desktop.transport.recheck()
            assert (await two.came.ended()).why is Why.CLOSED
            with pytest.raises(LinkError):  # Not even what came before.
                await there.receive()
            assert (await two.dialled.ended()).why is Why.LOST
            with pytest.raises(LinkError) as caught:
                await two.laptop.dial(two.desktop, two.desktop.id)
            assert caught.value.why is Why.REFUSED

        self.on_link(test)

    def test_while_a_code_is_open_a_stranger_gets_the_channel_for_pairing_and_no_other(self) -> None:
        async def work() -> None:
            async with self.linked() as (world, two):
                two.desktop.trust.open = True
                stranger = world.device("stranger")
                link = await stranger.dial(two.desktop, None)
                came = await two.desktop.came.get()
                assert not link.trusted and not came.trusted and came.peer == stranger.id
                here = await link.open(PAIR)
                there = await came.accepted()
                await here.send(b"message one")
                assert await there.receive() == b"message one"
                for one in (link, came):
                    with pytest.raises(ValueError, match="cannot be opened"):
                        await one.open("sync")

        run(work())

    # Messages

    def test_messages_come_whole_in_order_and_once(self) -> None:
        async def test(two: Linked) -> None:
            sizes = [0, 1, 4096, 32759, 32760, 32761, 65520, 65536, LINK_MESSAGE_BYTES_MAX, 0, 3]
            here, there = await two.channel()

            async def send(channel: Channel) -> None:
                for size in sizes:
                    await channel.send(LARGE[:size])
                await channel.close()

            async def read(channel: Channel) -> list[bytes]:
                found = []
                while (message := await channel.receive()) is not None:
                    found.append(message)
                return found

            _, found = await both(send(here), read(there))
            assert found == [LARGE[:size] for size in sizes]

        self.on_link(test)

    def test_what_came_already_is_taken_without_waiting_in_the_same_order(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()
            assert there.receive_more() is None
            for number in range(40):
                await here.send(b"%d" % number)
            found: list[bytes | None] = []
            while len(found) < 40:
                found.append(await there.receive())
                while (more := there.receive_more()) is not None:
                    found.append(more)
            assert found == [b"%d" % number for number in range(40)]
            await here.close()
            assert await there.receive() is None and there.receive_more() is None

        self.on_link(test)

    def test_a_channel_carries_both_ways_and_both_ends_open_some(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel("group")
            back = await two.came.open("handoff")
            forth = await two.dialled.accepted()
            assert (there.name, forth.name) == ("group", "handoff")
            for near, far in ((here, there), (there, here), (back, forth), (forth, back)):
                await near.send(b"a word")
                assert await far.receive() == b"a word"

        self.on_link(test)

    def test_a_message_that_is_too_large_is_refused_where_it_is_sent(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()
            with pytest.raises(ValueError, match="passes the bound"):
                await here.send(LARGE + b"x")
            await here.send(b"goes on")
            assert await there.receive() == b"goes on"

        self.on_link(test)

    def test_who_sends_waits_while_nobody_reads_and_other_channels_go_on(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel("pages")
            sent = 0

            async def fill() -> None:
                nonlocal sent
                while True:
                    await here.send(LARGE)
                    sent += 1

            filling = asyncio.create_task(fill())
            other, far = await two.channel("group")
            for _ in range(100):  # Each a turn around the link: whatever can go has gone after some.
                await other.send(b"?")
                assert await far.receive() == b"?"
            stood = sent
            for _ in range(20):
                await other.send(b"?")
                assert await far.receive() == b"?"
            assert sent == stood and (stood - 3) * len(LARGE) <= LINK_WINDOW_BYTES
            for _ in range(8):
                assert await there.receive() == LARGE
            while sent == stood:
                await other.send(b"?")
                assert await far.receive() == b"?"
            filling.cancel()

        self.on_link(test)

    def test_what_may_be_read_ahead_comes_while_nobody_reads_and_no_more(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel("pages")
            more = 4
            there.read_ahead(more * (len(LARGE) + LINK_WINDOW_BYTES // 64))
            sent = 0

            async def fill() -> None:
                nonlocal sent
                while True:
                    await here.send(LARGE)
                    sent += 1

            filling = asyncio.create_task(fill())
            other, far = await two.channel("group")
            for _ in range(200):  # Each a turn around the link: whatever can go has gone after some.
                await other.send(b"?")
                assert await far.receive() == b"?"
            stood = sent
            for _ in range(20):
                await other.send(b"?")
                assert await far.receive() == b"?"
            assert sent == stood
            assert more < stood and (stood - 3 - more) * len(LARGE) <= LINK_WINDOW_BYTES
            for _ in range(3 * stood):
                assert await there.receive() == LARGE
            filling.cancel()

        self.on_link(test)

    def test_a_small_urgent_message_overtakes_64_mib_of_pages(self) -> None:
        async def test(two: Linked) -> None:
            pages, pages_there = await two.channel("pages")
            head, head_there = await two.channel("sync", urgent=True)
            came = 0

            async def send() -> None:
                for _ in range(64):
                    await pages.send(LARGE)

            async def read() -> None:
                nonlocal came
                while came < 64:
                    assert await pages_there.receive() is not None
                    came += 1

            sending, reading = asyncio.create_task(send()), asyncio.create_task(read())
            while came < 4:
                await asyncio.sleep(0)
            await head.send(bytes(4096))
            before = came
            assert await head_there.receive() == bytes(4096)
            assert came - before <= 4
            await asyncio.gather(sending, reading)
            assert came == 64

        self.on_link(test)

    def test_channels_share_a_link_fairly(self) -> None:
        async def test(two: Linked) -> None:
            channels = [await two.channel(name) for name in ("pages", "registry", "sync")]
            counts = [0, 0, 0]

            async def send(channel: Channel) -> None:
                while True:
                    await channel.send(LARGE[:200_000])

            async def read(index: int, channel: Channel) -> None:
                while True:
                    await channel.receive()
                    counts[index] += 1

            tasks = [asyncio.create_task(send(here)) for here, _ in channels]
            tasks += [asyncio.create_task(read(index, there)) for index, (_, there) in enumerate(channels)]
            while sum(counts) < 150:
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            assert min(counts) >= max(counts) / 2

        self.on_link(test)

    # Ends of channels

    def test_an_ended_channel_gives_what_came_and_then_says_so(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()
            await here.send(b"the last")
            await here.close()
            await here.close()
            with pytest.raises(LinkError):
                await here.send(b"more")
            with pytest.raises(LinkError):
                await here.receive()
            assert await there.receive() == b"the last"
            assert await there.receive() is None
            assert await there.receive() is None
            with pytest.raises(LinkError) as caught:
                await there.send(b"an answer that nobody wants")
            assert caught.value.why is Why.CLOSED
            assert two.came.error is None

        self.on_link(test)

    def test_who_closes_a_channel_frees_who_waits_to_send_on_it(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()

            async def fill() -> None:
                while True:
                    await here.send(LARGE)

            filling = asyncio.create_task(fill())
            assert await there.receive() == LARGE
            await there.close()
            with pytest.raises(LinkError):
                await filling

        self.on_link(test)

    def test_thousands_of_channels_one_after_another_use_up_nothing(self) -> None:
        async def test(two: Linked) -> None:
            async def serve() -> None:
                for _ in range(2000):
                    channel = await two.came.accepted()
                    assert await channel.receive() == b"ask"
                    await channel.send(b"answer")
                    assert await channel.receive() is None

            async def ask() -> None:
                for _ in range(2000):
                    channel = await two.dialled.open("live")
                    await channel.send(b"ask")
                    assert await channel.receive() == b"answer"
                    await channel.close()

            await both(serve(), ask())

        self.on_link(test)

    def test_as_many_channels_are_open_as_may_be_and_the_next_one_waits(self) -> None:
        async def test(two: Linked) -> None:
            opened = [await two.dialled.open("live") for _ in range(LINK_CHANNELS_MAX)]
            more = asyncio.create_task(two.dialled.open("live"))
            accepted = [await two.came.accepted() for _ in range(LINK_CHANNELS_MAX)]
            assert not more.done()
            await opened[0].close()
            assert await accepted[0].receive() is None
            await (await more).send(b"through")
            assert await (await two.came.accepted()).receive() == b"through"

        self.on_link(test)

    # Ends of links

    def test_a_closed_link_carries_what_was_sent_before_and_the_reason(self) -> None:
        async def test(two: Linked) -> None:
            here, there = await two.channel()
            await here.send(LARGE)
            await here.send(b"the last")
            reading = asyncio.create_task(there.receive())
            await two.dialled.close("the daemon ends")
            await two.dialled.close("twice")
            assert await reading == LARGE and await there.receive() == b"the last"
            why = await two.came.ended()
            assert why.why is Why.CLOSED and "the daemon ends" in str(why)
            for waiting in (there.receive(), two.came.accepted(), two.came.open("sync"), here.send(b"x")):
                with pytest.raises(LinkError):
                    await waiting

        self.on_link(test)

    def test_whoever_waits_on_a_link_that_ends_is_told(self) -> None:
        async def test(two: Linked) -> None:
            here, _ = await two.channel()

            async def fill() -> None:
                while True:
                    await here.send(LARGE)

            waiting = [
                asyncio.create_task(one)
                for one in (here.receive(), two.dialled.accepted(), fill(), two.dialled.answers(30))
            ]
            await asyncio.sleep(0)
            two.came.cut("tried")
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(one) for one in results[:3]] == [LinkError] * 3 and results[3] in (True, False)
            assert (await two.dialled.ended()).why is Why.LOST

        self.on_link(test)

    def test_an_idle_link_whose_other_end_is_gone_without_a_word_is_lost(self) -> None:
        async def work() -> None:
            async with self.linked(QUICK) as (world, two):
                here, there = await two.channel()
                await here.send(b"a word")
                assert await there.receive() == b"a word"
                world.silence()
                for link in (two.dialled, two.came):
                    assert (await link.ended()).why is Why.LOST

        run(work())

    def test_an_idle_link_with_somebody_there_stays(self) -> None:
        async def work() -> None:
            async with self.linked(QUICK) as (world, two):
                await asyncio.sleep(10 * QUICK.keepalive_seconds)  # What is tried is that time passes.
                here, there = await two.channel()
                await here.send(b"still there")
                assert await there.receive() == b"still there"
                world.silence()
                assert (await two.dialled.ended()).why is Why.LOST

        run(work())

    def test_a_link_is_asked_for_a_sign_of_life_and_ends_without_one(self) -> None:
        async def work() -> None:
            async with self.linked() as (world, two):
                assert await two.dialled.answers(30) and await two.came.answers(30)
                world.silence()
                assert not await two.dialled.answers(0.05)
                assert (await two.dialled.ended()).why is Why.LOST

        run(work())

    def test_who_listens_no_more_ends_what_came_in_and_nobody_gets_in(self) -> None:
        async def test(two: Linked) -> None:
            assert two.desktop.listener is not None
            await two.desktop.listener.close()
            assert (await two.dialled.ended()).why in (Why.CLOSED, Why.LOST)
            with pytest.raises(LinkError) as caught:
                await two.laptop.dial(two.desktop, two.desktop.id)
            assert caught.value.why is Why.UNREACHABLE

        self.on_link(test)

    # One link

    def test_of_two_links_dialled_at_the_same_moment_both_ends_keep_the_same_one(self) -> None:
        async def work() -> None:
            async with self.world() as world:
                ends = [world.device("laptop"), world.device("desktop")]
                told: list[list[str]] = [[], []]
                kept = [
                    OnePerDevice(lambda _, t=t: t.append("linked"), lambda _, __, t=t: t.append("lost")) for t in told
                ]
                for one, other in (ends, ends[::-1]):
                    one.trust.members.add(other.id)
                    await one.listen()
                links = await both(ends[0].dial(ends[1], ends[1].id), ends[1].dial(ends[0], ends[0].id))
                came = [await one.came.get() for one in ends]
                assert links[0].precedence == came[1].precedence != links[1].precedence == came[0].precedence
                stayed = await asyncio.gather(
                    kept[0].offer(links[0]), kept[0].offer(came[0]), kept[1].offer(came[1]), kept[1].offer(links[1])
                )
                at = [kept[0].link(ends[1].id), kept[1].link(ends[0].id)]
                assert at[0] is not None and at[1] is not None and at[0].dialled != at[1].dialled
                dialler = 0 if ends[0].id < ends[1].id else 1
                assert at[dialler].dialled and len([one for one in stayed if one]) >= 2
                channel = await at[0].open("sync")
                await channel.send(b"over the one that stays")
                assert await (await at[1].accepted()).receive() == b"over the one that stays"
                for says in told:
                    assert says in (["linked"], ["linked", "lost", "linked"])

        run(work())

    def test_of_two_links_that_the_same_device_dialled_the_later_stays(self) -> None:
        async def test(two: Linked) -> None:
            kept = OnePerDevice(lambda _: None, lambda _, __: None)
            assert await kept.offer(two.came)
            await two.laptop.dial(two.desktop, two.desktop.id)
            fresh = await two.desktop.came.get()
            assert await kept.offer(fresh) and kept.link(two.laptop.id) is fresh
            assert (await two.dialled.ended()).why is Why.CLOSED
            assert not await kept.offer(two.came) and await kept.offer(fresh)

        self.on_link(test)

    def test_an_older_link_that_comes_first_stays_while_it_lives(self) -> None:
        async def test(two: Linked) -> None:
            await two.laptop.listen()
            back = await two.desktop.dial(two.laptop, two.laptop.id)
            low, high = sorted((two.came, back), key=lambda link: link.precedence)
            kept = OnePerDevice(lambda _: None, lambda _, __: None)
            assert await kept.offer(high) and not await kept.offer(low)
            assert kept.link(two.laptop.id) is high and low.error is not None

        self.on_link(test)

    def test_a_device_that_started_anew_is_believed_at_once(self) -> None:
        async def work() -> None:
            async with self.linked() as (world, two):
                kept = OnePerDevice(lambda _: None, lambda _, __: None)
                assert await kept.offer(two.came)
                anew = world.device("laptop", instance=b"another start...")
                anew.trust.members.add(two.desktop.id)
                await anew.dial(two.desktop, two.desktop.id)
                fresh = await two.desktop.came.get()
                assert fresh.instance != two.came.instance and await kept.offer(fresh)
                assert kept.link(two.laptop.id) is fresh and two.came.error is not None

        run(work())
