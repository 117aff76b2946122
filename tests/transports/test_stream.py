"""A link over bytes holds its peer to the rules, whatever comes; peers of earlier versions are understood."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contracts.links import LARGE, run
from tests.protocol.mutate import mutated_bytes
from tests.transports import recorded
from tests.transports.devices import device_named
from tests.transports.recorded import OTHER, Tape, give, link_on

from hhd.transports.channels import QUEUE_BYTES
from hhd.transports.link import LinkError, Why
from hhd.transports.outgoing import BATCH_BYTES
from hhd.transports.stream import Ends, Own, Pace, StreamLink, slept_clock
from hhd.transports.tcp import Bounds
from hhd_protocol import link as wire
from hhd_protocol.limits import LINK_CHANNELS_MAX, LINK_FRAME_BYTES_MAX, LINK_WINDOW_BYTES
from hhd_protocol.link import VERSIONS, Decoder, Hello, Kind

SPEC = (Path(__file__).parents[2] / "protocol/spec/link.md").read_text()
HELLO = wire.hello(Hello((1,), b"a dialler's own.", 1, "0.1.0"))
PART = bytes(LINK_FRAME_BYTES_MAX)


def opened(number: int = 1, name: bytes = b"sync") -> bytes:
    return wire.frame(Kind.OPEN, number, name)


def data(content: bytes = b"x", *, number: int = 1, last: bool = True) -> bytes:
    return wire.frame(Kind.DATA, number, content, flag=last)


END = wire.frame(Kind.END, 1)


OWN = Own(instance=bytes(16), hhd="0.1.0")


def on(tape: Tape, *, own: Own = OWN, trusted: bool = True, clock: Callable[[], float] = slept_clock) -> StreamLink:
    """A link that was dialled, over `tape`."""
    ends = Ends(me=device_named("desktop").id, peer=device_named("laptop").id, dialled=False, trusted=trusted)
    return StreamLink(tape, ends, own, dials=0, clock=clock)


async def was_dialled(raw: bytes, *, trusted: bool = True) -> tuple[StreamLink, Tape]:
    """A link that was dialled, to which `raw` came."""
    tape = Tape()
    link = on(tape, trusted=trusted)
    give(link, raw)
    return link, tape


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (data(), "not open"),
        (opened(2), "out of turn"),
        (opened(3), "out of turn"),
        (opened() + opened(), "out of turn"),
        (opened() + opened(5), "out of turn"),
        (b"".join(opened(1 + 2 * i) for i in range(LINK_CHANNELS_MAX + 1)), "more channels"),
        (opened() + END + END, "twice"),
        (opened() + data(last=False) + END, "within a message"),
        (opened() + END + data(), "after its end"),
        (opened() + data(PART, last=False) * 33, "passes the bound"),
        (opened() + data(PART) * (LINK_WINDOW_BYTES // len(PART)), "window"),
        (opened() + data(b"") * (LINK_WINDOW_BYTES // 64 + 1), "window"),
        (opened() + wire.frame(Kind.CREDIT, 1, wire.credit(1)), "more than was sent"),
        (wire.frame(Kind.CREDIT, 2, wire.credit(1)), "not open"),
        (wire.frame(Kind.PONG, 0, wire.number(1)), "answers no ping"),
        (b"\0\0\0\0\x09\0\0\0", "kind"),
        (HELLO, "kind"),
    ],
)
def test_who_breaks_the_rules_loses_the_link_and_all_that_came(raw: bytes, says: str) -> None:
    async def work() -> None:
        link, tape = await was_dialled(HELLO + raw)
        assert link.error is not None and link.error.why is Why.FAULT and says in str(link.error)
        assert tape.over
        with pytest.raises(LinkError):
            await link.accepted()
        give(link, data())  # Nothing is read any more.

    run(work())


def test_up_to_the_bounds_nothing_is_broken() -> None:
    async def work() -> None:
        raw = HELLO + b"".join(opened(1 + 2 * i) for i in range(LINK_CHANNELS_MAX))
        raw += data(PART) * (LINK_WINDOW_BYTES // (len(PART) + 64))
        raw += data(b"", number=3) * (LINK_WINDOW_BYTES // 64)
        link, _ = await was_dialled(raw)
        assert link.error is None
        first, second = await link.accepted(), await link.accepted()
        assert await first.receive() == PART and await second.receive() == b""

    run(work())


def test_a_stranger_opens_one_channel_for_pairing_and_no_other() -> None:
    async def work() -> None:
        for raw, fine in (
            (opened(1, b"pair"), True),
            (opened(1, b"sync"), False),
            (opened(1, b"pair") + opened(3, b"pair"), False),
        ):
            link, _ = await was_dialled(HELLO + raw, trusted=False)
            assert (link.error is None) is fine

    run(work())


def test_a_hello_of_the_wrong_side_is_refused() -> None:
    async def work() -> None:
        link, _ = await was_dialled(wire.hello(Hello((1,), bytes(16), 0, "0.1.0")))
        assert link.error is not None and link.error.why is Why.FAULT
        link, _ = await was_dialled(HELLO)
        assert link.error is None and link.version == 1

    run(work())


@pytest.mark.parametrize(
    ("theirs", "ours", "says"), [((1,), (3, 2), "the other device is older"), ((9, 8), (2, 1), "this device is older")]
)
def test_two_without_a_common_version_say_which_is_older(
    theirs: tuple[int, ...], ours: tuple[int, ...], says: str
) -> None:
    async def work() -> None:
        tape = Tape()
        link = on(tape, own=dataclasses.replace(OWN, versions=ours))
        give(link, wire.hello(Hello(theirs, bytes(16), 1, "7.7")))
        with pytest.raises(LinkError, match=says) as caught:
            await link.greeted()
        assert caught.value.why is Why.VERSION and "7.7" in str(caught.value)
        said, _ = Decoder().feed(bytes(tape.said))
        assert said is not None and said.versions == ours  # The other side can say so too.

    run(work())


def test_the_newest_version_that_both_speak_is_chosen() -> None:
    async def work() -> None:
        link, _ = await was_dialled(wire.hello(Hello((9, 3, 1), bytes(16), 1, "7.7")))
        assert link.version == 1

    run(work())


@pytest.mark.parametrize("version", sorted({1, *VERSIONS}))
@pytest.mark.parametrize("live", ["dialler", "accepter"])
def test_a_recorded_peer_of_each_version_is_understood(version: int, live: str) -> None:
    """One side is the recording, the other this code: it hears what it heard then, and says what it said."""

    async def work() -> None:
        steps = recorded.recording(version)
        tape = Tape()
        link = link_on(tape, live)

        async def app() -> None:
            await link.greeted()
            assert link.version == version
            await recorded.APPS[live](link)

        doing = asyncio.create_task(app())
        due = 0
        for side, raw in steps:
            if side != live:
                give(link, raw)
                continue
            due += len(raw)
            while len(tape.said) < due and not doing.done():
                tape.more.clear()
                await tape.more.wait()
        await doing
        then = Decoder().feed(b"".join(raw for side, raw in steps if side == live))
        now = Decoder().feed(bytes(tape.said))
        assert now[1] == then[1] and now[0] is not None and then[0] is not None
        assert set(now[0].versions) >= set(then[0].versions)

    run(work())


def test_nothing_but_the_end_of_the_link_comes_of_hostile_bytes_and_what_is_held_is_bounded() -> None:
    steps = recorded.recording(1)
    said = {side: b"".join(raw for who, raw in steps if who == side) for side in OTHER}
    begin = said["dialler"][:4000]
    dice = random.Random(7)

    async def work() -> None:
        faults = alive = 0
        for turn in range(1500):
            if turn % 2:  # From what was said once.
                raw = begin[: len(HELLO)] + mutated_bytes(begin[len(HELLO) : dice.randrange(60, 400)], dice)
            else:
                kinds = [opened(1), opened(3), data(), data(last=False), END, data(number=3), opened(5)]
                kinds += [wire.frame(Kind.PING, 0, wire.number(dice.randrange(9))), dice.randbytes(9)]
                raw = HELLO + b"".join(dice.choices(kinds, [9, 4, 9, 3, 1, 3, 1, 4, 1], k=12))
            link, tape = await was_dialled(raw)
            if link.error is None:
                alive += 1
                held = sum(len(message) for one in link._channels.values() for message, *_ in one._incoming)
                assert held <= len(raw) and len(tape.said) < 4000
            else:
                assert link.error.why in (Why.FAULT, Why.CLOSED) and tape.over
                faults += 1
            link.cut("the test is over")
        assert faults > 200 and alive > 200

    run(work())


class Slow(Tape):
    """A wire that takes little at a time, and nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.room = 0

    def write(self, raw: memoryview) -> int:
        count = min(self.room, len(raw))
        self.room -= count
        return super().write(raw[:count])


def slow_link(room: int) -> tuple[StreamLink, Slow]:
    """A link that was greeted, over a wire that takes `room` bytes and then no more."""
    slow = Slow()
    slow.room = room
    link = on(slow)
    give(link, HELLO)
    return link, slow


def test_a_peer_that_reads_nothing_makes_this_side_hold_no_more_than_its_queues() -> None:
    async def work() -> None:
        link, slow = slow_link(200)
        await link.greeted()
        channel = await link.open("pages")

        async def fill() -> None:
            while True:
                await channel.send(LARGE)

        tasks = [asyncio.create_task(fill()) for _ in range(5)]
        for number in range(1, 20_000):  # Each asks for an answer; only the newest is owed.
            give(link, wire.frame(Kind.PING, 0, wire.number(number)))
        await asyncio.sleep(0)
        assert channel._outgoing_bytes <= QUEUE_BYTES + len(LARGE)
        assert sum(map(len, link._going._control)) < 100
        assert link._going._end <= BATCH_BYTES + 2 * LINK_FRAME_BYTES_MAX
        slow.room = 10_000_000
        link.has_room()
        frames = Decoder().feed(bytes(slow.said))[1]
        pongs = [one.content for one in frames if one.kind is Kind.PONG]
        assert pongs[-1] == wire.number(19_999) and len(pongs) < 15
        assert sum(len(one.content) + 64 for one in frames if one.kind is Kind.DATA) <= LINK_WINDOW_BYTES
        for task in tasks:
            task.cancel()
        link.cut("the test is over")

    run(work())


def test_what_is_urgent_waits_behind_one_batch() -> None:
    async def work() -> None:
        link, slow = slow_link(10_000)
        for number in range(8):  # As many that take turns would be ahead of it, a frame each.
            await (await link.open(f"pages{number}")).send(LARGE)
        head = await link.open("sync", urgent=True)
        before = len(slow.said)
        await head.send(b"a small head")
        slow.room = 10_000_000
        link.has_room()
        at = bytes(slow.said).find(b"a small head")
        assert 0 < at - before <= BATCH_BYTES + LINK_FRAME_BYTES_MAX + 100

    run(work())


def test_channels_of_one_rank_take_turns_a_frame_each() -> None:
    async def work() -> None:
        link, slow = slow_link(200)
        channels = [await link.open(name) for name in ("pages", "registry", "live")]
        for channel in channels:
            await channel.send(LARGE[:400_000])
        slow.room = 10_000_000
        link.has_room()
        said = [one.channel for one in Decoder().feed(bytes(slow.said))[1] if one.kind is Kind.DATA]
        assert len(said) >= 36 and all(len(set(said[at : at + 3])) == 3 for at in range(6, 33))

    run(work())


def test_after_a_sleep_the_peer_is_asked_at_once_and_given_a_second() -> None:
    async def work() -> None:
        time = 0.0

        def clock() -> float:
            return time

        tape = Tape()
        pace = Pace(look_seconds=0.01, wake_seconds=0.05, slept_seconds=3)
        own = dataclasses.replace(OWN, pace=pace)
        for slept, lost in ((2, False), (3600, True)):
            link = on(tape, own=own, clock=clock)
            give(link, HELLO)
            await link.greeted()
            time += slept
            if lost:
                assert (await link.ended()).why is Why.LOST
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):  # What is tried is that nothing happens.
                        await link.ended()
                link.cut("the test is over")

    run(work())


def test_a_device_that_wakes_keeps_a_link_whose_peer_answers() -> None:
    async def work() -> None:
        time = 0.0
        tape = Tape()
        pace = Pace(look_seconds=0.01, wake_seconds=0.05)
        link = on(tape, own=dataclasses.replace(OWN, pace=pace), clock=lambda: time)
        give(link, HELLO)
        await link.greeted()
        time += 3600
        begin = len(tape.said)
        while len(tape.said) == begin:
            await asyncio.sleep(0.001)
        ping = Decoder().feed(HELLO + bytes(tape.said[begin:]))[1][0]
        assert ping.kind is Kind.PING
        give(link, wire.frame(Kind.PONG, 0, ping.content))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await link.ended()
        link.cut("the test is over")

    run(work())


def test_a_link_with_a_limit_sends_at_that_rate_and_control_is_not_held_back() -> None:
    async def work() -> None:
        tape = Tape()
        rate = 2_000_000
        own = dataclasses.replace(OWN, bytes_per_second=lambda: rate)
        link = on(tape, own=own)
        give(link, HELLO)
        channel = await link.open("pages")
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await channel.send(LARGE[:600_000])
        give(link, wire.frame(Kind.PING, 0, wire.number(1)))
        assert Decoder().feed(bytes(tape.said))[1][-1].kind is Kind.PONG  # At once.
        while len(tape.said) < 600_000:
            tape.more.clear()
            await tape.more.wait()
        seconds = loop.time() - begin
        assert seconds >= (600_000 - rate * 0.05 - BATCH_BYTES) / rate
        link.cut("the test is over")

    run(work())


def test_the_times_and_bounds_in_the_spec_are_those_of_the_code() -> None:
    pace, bounds = Pace(), Bounds()
    for said in (
        f"no hello after {pace.hello_seconds:g} s",
        f"heard nothing for {pace.keepalive_seconds:g} s asks; nothing at all for {pace.silence_seconds:g} s more",
        f"waits {pace.wake_seconds:g} s",
        f"Batches are of {BATCH_BYTES // 1024} KiB",
        f"| connections that have proven nothing | {bounds.pending} |",
        f"| time for a handshake | {bounds.handshake_seconds:g} s |",
        f"| links that came in | {bounds.links} |",
        f"| of these, from one device | {bounds.links_of_one} |",
        f"| of these, from strangers while a code is open | {bounds.strangers} |",
    ):
        assert said in re.sub(r"\s+", " ", SPEC), said
