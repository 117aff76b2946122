"""Links between hosts: cut anywhere, half-open, in hostile hands, and never in plain text."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from tests.contracts.links import QUICK
from tests.net.conftest import LabMaker
from tests.net.lab import Emulated
from tests.net.loops import PORT, There, two

from hhd.transports.link import Channel, Link, LinkError, Why
from hhd.transports.one import OnePerDevice
from hhd_protocol.link import MAGIC

pytestmark = pytest.mark.netns

MESSAGES = [bytes([number]) * 40_000 for number in range(8)]


async def sent(link: Link, messages: list[bytes]) -> int:
    """Send messages on a channel and end it; returns how many went before the link ended."""
    done = 0
    try:
        channel = await link.open("pages")
        for message in messages:
            await channel.send(message)
            done += 1
        await channel.close()
        await link.ended()
    except LinkError:
        pass
    return done


async def taken(link: Link) -> tuple[list[bytes], bool]:
    """The messages of the next channel, and whether it came to its end."""
    found: list[bytes] = []
    try:
        channel = await link.accepted()
        while (message := await channel.receive()) is not None:
            found.append(message)
    except LinkError:
        return found, False
    return found, True


async def echoed(channel: Channel) -> None:
    with contextlib.suppress(LinkError):
        while (message := await channel.receive()) is not None:
            await channel.send(message)


def works(near: There, link: Link, far: There, came: Link) -> bool:
    """Whether a word gets from one end of a link to the other."""

    async def say() -> None:
        await (await link.open("sync")).send(b"a word")

    async def hear() -> bytes | None:
        return await (await came.accepted()).receive()

    near.loop.do(say())
    return far.loop.do(hear()) == b"a word"


class Relay:
    """Passes on what a client and a server say, up to a byte of what the client says; then nothing, either way."""

    def __init__(self, to: str, stop_after: int | None) -> None:
        self._to, self._left, self.passed = to, stop_after, 0
        self._listener = socket.create_server(("0.0.0.0", PORT + 1))
        self._held: list[socket.socket] = [self._listener]

    def serve(self) -> None:
        """Serve one client, until a side closes or the byte came; nothing is closed before `close`."""
        client, _ = self._listener.accept()
        server = socket.create_connection((self._to, PORT))
        self._held += [client, server]
        quiet = threading.Event()

        def back() -> None:
            with contextlib.suppress(OSError):
                while raw := server.recv(65536):
                    if quiet.is_set():
                        return
                    client.sendall(raw)

        threading.Thread(target=back, daemon=True).start()
        with contextlib.suppress(OSError):
            while raw := client.recv(65536):
                if self._left is not None and self.passed + len(raw) >= self._left:
                    raw = raw[: self._left - self.passed]
                    quiet.set()
                server.sendall(raw)
                self.passed += len(raw)
                if quiet.is_set():
                    return

    def close(self) -> None:
        for one in self._held:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def relayed(net: object, to: str, stop_after: int | None) -> Iterator[Relay]:
    relay = net["router"].call(Relay, to, stop_after)  # type: ignore[index]
    serving = net["router"].start(relay.serve)  # type: ignore[index]
    try:
        yield relay
    finally:
        relay.close()
        with contextlib.suppress(OSError):
            serving.result(240)


def test_a_link_cut_at_any_byte_also_the_last_gives_whole_messages_only_and_the_next_one_gives_all(
    lab: LabMaker,
) -> None:
    with lab("laptop", "router", "desktop") as net, two(net["laptop"], net["desktop"], QUICK) as (laptop, desktop):

        def transfer(stop_after: int | None) -> tuple[list[bytes], bool, int, LinkError | None]:
            with relayed(net, net["desktop"].ip4, stop_after) as relay:
                try:
                    link = laptop.dial(net["router"].ip4, desktop, PORT + 1)
                except LinkError as error:
                    return [], False, relay.passed, error
                came = desktop.came()
                sending = net["laptop"].start(lambda: laptop.loop.do(sent(link, MESSAGES)))
                found, whole = desktop.loop.do(taken(came))
                if not whole:
                    assert desktop.loop.do(came.ended()).why is Why.LOST
                    assert laptop.loop.do(link.ended()).why is Why.LOST
                passed = relay.passed
                laptop.loop.do(_cut(link))
                sending.result(240)
                return found, whole, passed, None

        found, whole, total, error = transfer(None)  # The positive control; and how many bytes it takes.
        assert found == MESSAGES and whole and error is None and total > sum(map(len, MESSAGES))
        # The very last bytes are the end of the channel: 8 bytes of a frame in a record of their own, 30 with TLS's.
        for stop in (100, 1500, 2300, 30_000, total // 2, total - 40_000, total - 60, total - 1):
            found, whole, _, error = transfer(stop)
            assert found == MESSAGES[: len(found)], "a message came in part, or out of turn"
            assert not whole or stop > total - 200, "it ended where it was cut"
            assert (error is not None) <= (stop < 3000)
        assert transfer(None)[:2] == (MESSAGES, True)


async def _cut(link: Link) -> None:
    link.cut("the test goes on")


def test_a_cable_pulled_in_the_middle_is_noticed_by_both_and_the_next_link_works(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"], QUICK) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        sending = net["laptop"].start(lambda: laptop.loop.do(sent(link, [bytes(1024 * 1024)] * 10_000)))

        async def begun() -> None:
            channel = await came.accepted()
            for _ in range(5):
                assert await channel.receive() == bytes(1024 * 1024)

        desktop.loop.do(begun())
        net.cut("desktop")
        assert laptop.loop.do(link.ended()).why is Why.LOST
        assert desktop.loop.do(came.ended()).why is Why.LOST
        assert sending.result(240) < 10_000
        net.mend("desktop")
        link = laptop.dial(net["desktop"].ip4, desktop)
        assert works(laptop, link, desktop, desktop.came())


def test_a_half_open_link_is_noticed_when_the_other_end_started_anew(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        assert works(laptop, link, desktop, came)
        kept = OnePerDevice(lambda _: None, lambda _, __: None)
        assert laptop.loop.do(kept.offer(link))
        net.cut("desktop")
        desktop.end()  # The laptop hears nothing of it.
        assert laptop.loop.do(_error(link)) is None
        net.mend("desktop")
        anew = There(net["desktop"], "desktop", start=2)
        anew.trust.members.add(laptop.id)
        anew.listen()
        fresh = anew.dial(net["laptop"].ip4, laptop)
        assert laptop.loop.do(kept.offer(laptop.came()))
        laptop.loop.do(link.ended())  # By its place being taken, or by what the system of the desktop sent again.
        assert fresh.error is None
        anew.end()


async def _error(link: Link) -> LinkError | None:
    return link.error


@pytest.mark.parametrize("who", ["laptop", "desktop"])
def test_a_link_that_one_side_lost_is_replaced_by_the_next_dial_of_that_side(lab: LabMaker, who: str) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        here, there = (laptop, desktop) if who == "laptop" else (desktop, laptop)
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        mine, theirs = (link, came) if who == "laptop" else (came, link)
        kept = OnePerDevice(lambda _: None, lambda _, __: None)
        assert there.loop.do(kept.offer(theirs))
        net.cut(who)
        here.loop.do(_cut(mine))
        net.mend(who)
        fresh = here.dial(net[there.host.name].ip4, there)
        arrived = there.came()
        assert there.loop.do(kept.offer(arrived)), "the dead one stayed"
        assert works(here, fresh, there, arrived)


def test_an_address_that_changed_ends_the_link_and_the_new_one_is_linked_to(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"], QUICK) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        old = net["desktop"].ip4
        net.move("desktop", "10.77.0.88")
        assert laptop.loop.do(link.ended()).why is Why.LOST
        assert desktop.loop.do(came.ended()).why is Why.LOST
        with pytest.raises(LinkError) as caught:
            laptop.dial(old, desktop)
        assert caught.value.why is Why.UNREACHABLE
        assert works(laptop, laptop.dial("10.77.0.88", desktop), desktop, desktop.came())


def test_a_man_in_the_middle_at_the_address_of_a_device_gets_nothing(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "mallory") as net, two(net["laptop"], net["desktop"], QUICK) as (laptop, desktop):
        address = net["desktop"].ip4
        works(laptop, laptop.dial(address, desktop), desktop, desktop.came())
        mallory = There(net["mallory"])
        mallory.trust.members |= {laptop.id, desktop.id}
        mallory.listen()
        net.move("desktop", "10.77.0.50")
        net.move("mallory", address)
        net["laptop"].run("ip", "neigh", "flush", "all")
        with pytest.raises(LinkError) as caught:
            laptop.dial(address, desktop)
        assert caught.value.why is Why.STRANGER
        with pytest.raises(LinkError) as caught:
            mallory.dial("10.77.0.50", desktop)
        assert caught.value.why is Why.REFUSED
        assert mallory.device.came.empty()
        assert works(laptop, laptop.dial("10.77.0.50", desktop), desktop, desktop.came())
        mallory.end()


def stream_of(frames: list[bytes], source: str, port: int) -> bytes:
    """What `source` sent to a TCP port over IPv4, in order, from frames that were captured."""
    parts: dict[int, bytes] = {}
    for frame in frames:
        if frame[12:14] != b"\x08\x00" or frame[23] != 6 or frame[26:30] != socket.inet_aton(source):
            continue
        ip = 14 + (frame[14] & 15) * 4
        if int.from_bytes(frame[ip + 2 : ip + 4], "big") != port:
            continue
        data = frame[ip + (frame[ip + 12] >> 4) * 4 : 14 + int.from_bytes(frame[16:18], "big")]
        if data:
            parts.setdefault(int.from_bytes(frame[ip + 4 : ip + 8], "big"), data)
    return b"".join(parts[number] for number in sorted(parts))


def replayed(host: str, raw: bytes) -> bytes:
    """Say to a port what somebody else once said, and return the answer."""
    with socket.create_connection((host, PORT), timeout=240) as own:
        answer = b""
        with contextlib.suppress(OSError):
            own.sendall(raw)
            own.shutdown(socket.SHUT_WR)
            while part := own.recv(65536):
                answer += part
        return answer


def test_a_handshake_captured_on_the_wire_and_replayed_gets_nothing(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "mallory") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        with net.capture("laptop") as frames:
            link = laptop.dial(net["desktop"].ip4, desktop)
            assert works(laptop, link, desktop, desktop.came())
            laptop.loop.do(link.close("captured"))
        raw = stream_of(frames, net["laptop"].ip4, PORT)
        assert raw[:1] == b"\x16" and len(raw) > 1500
        before = len(desktop.trust.asked)
        answer = net["mallory"].call(replayed, net["desktop"].ip4, raw)
        assert MAGIC not in answer and len(desktop.trust.asked) == before, "it got as far as its certificate"
        assert desktop.device.came.empty()
        works(laptop, laptop.dial(net["desktop"].ip4, desktop), desktop, desktop.came())


def test_a_revoked_device_is_cut_at_once_and_refused_from_then_on(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "phone") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        assert works(laptop, link, desktop, came)

        async def revoke() -> float:
            desktop.trust.members.clear()
            desktop.device.transport.recheck()
            return desktop.loop._loop.time()

        desktop.loop.do(revoke())
        assert came.error is not None
        assert laptop.loop.do(link.ended()).why is Why.LOST
        for _ in range(3):
            with pytest.raises(LinkError) as caught:
                laptop.dial(net["desktop"].ip4, desktop)
            assert caught.value.why is Why.REFUSED
        with pytest.raises(LinkError):
            desktop.dial(net["laptop"].ip4, laptop)
        desktop.trust.members.add(laptop.id)  # The positive control.
        assert works(laptop, laptop.dial(net["desktop"].ip4, desktop), desktop, desktop.came())


def said_plainly(host: str, phrase: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.sendto(phrase, (host, 9))


def test_nothing_of_a_message_nor_of_a_channel_s_name_is_in_what_crosses_the_wire(lab: LabMaker) -> None:
    phrase = b"the phrase that nobody else may read"
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        with net.capture("laptop") as frames:
            link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()

            async def say() -> None:
                channel = await link.open("handoff")
                await channel.send(phrase * 10)
                await channel.send(phrase)

            async def hear() -> None:
                channel = await came.accepted()
                assert await channel.receive() == phrase * 10 and await channel.receive() == phrase
                await (await came.open("registry")).send(phrase)

            laptop.loop.do(say())
            desktop.loop.do(hear())
            laptop.loop.do(link.close(phrase.decode()))
        everything = b"".join(frames)
        assert len(everything) > 2000
        for plain in (phrase[:12], b"handoff", b"registry", MAGIC + b"\0", b"versions", laptop.id[:8], desktop.id[:8]):
            assert plain not in everything, plain
        with net.capture("laptop") as frames:  # The positive control.
            net["laptop"].call(said_plainly, net["desktop"].ip4, phrase)
            time.sleep(0.1)
        assert phrase in b"".join(frames)


def test_both_protocols_and_addresses_of_one_interface_alone_are_dialled(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        said = net["desktop"].run("ip", "-6", "-o", "addr", "show", "dev", "lan0", "scope", "link").stdout
        local = said.split("inet6 ")[1].split("/")[0]
        for host in (net["desktop"].ip4, net["desktop"].ip6, f"{local}%lan0"):
            deadline = time.monotonic() + 240
            while True:
                try:
                    link = laptop.dial(host, desktop)
                    break
                except LinkError as error:  # The address that the kernel makes itself is tried out by it first.
                    assert time.monotonic() < deadline, f"{host}: {error}"
            assert works(laptop, link, desktop, desktop.came())


def test_a_link_over_a_slow_lossy_line_carries_everything_and_a_head_overtakes(lab: LabMaker) -> None:
    line = Emulated(rate_mbit=100, delay_us=5000, loss_percent=0.5)
    with lab("laptop", "desktop", emulated=line) as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        pages = [bytes([number]) * 1024 * 1024 for number in range(4)]
        order: list[str] = []

        async def send() -> None:
            bulk, head = await link.open("pages"), await link.open("sync", urgent=True)
            for page in pages[:2]:
                await bulk.send(page)
            await head.send(b"a small head")
            for page in pages[2:]:
                await bulk.send(page)
            await bulk.close()

        async def read() -> None:
            bulk, head = await came.accepted(), await came.accepted()

            async def heads() -> None:
                assert await head.receive() == b"a small head"
                order.append("head")

            async def bulks() -> None:
                for page in pages:
                    assert await bulk.receive() == page
                    order.append("page")
                assert await bulk.receive() is None

            await asyncio.gather(heads(), bulks())

        sending = net["laptop"].start(lambda: laptop.loop.do(send()))
        desktop.loop.do(read())
        sending.result(240)
        assert order.index("head") <= 1


@pytest.mark.long
def test_an_idle_link_sends_at_most_100_bytes_a_second(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net, two(net["laptop"], net["desktop"]) as (laptop, desktop):
        link, came = laptop.dial(net["desktop"].ip4, desktop), desktop.came()
        time.sleep(3)
        before = sum(net.sent(name)[1] for name in ("laptop", "desktop"))
        time.sleep(16)
        spent = sum(net.sent(name)[1] for name in ("laptop", "desktop")) - before
        assert 0 < spent <= 16 * 100
        assert works(laptop, link, desktop, came)
