"""Strangers, recordings and floods get nothing and are told nothing, and an honest device is served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from pathlib import Path

import pytest
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import at, both_linked, linked, noted, pair, until
from tests.transports.devices import certificate_of, device_named
from zeroconf import DNSAddress, DNSOutgoing, DNSPointer, DNSService, DNSText, const

from hhd.app import devices, peering
from hhd.identity.certificates import peer_device
from hhd.transports.link import LinkError, Why
from hhd.transports.stream import Own
from hhd.transports.tcp import TcpTransport
from hhd_protocol.announcement import SERVICE

pytestmark = pytest.mark.netns

GROWN_BYTES_MAX = 16 * 1024 * 1024
"""More than a daemon takes for as many strangers as it looks at, and less than a flood would."""


REFUSED_MIN = 16
"""Of those that say what is no handshake and have a place still: so many were looked at."""


def resident_bytes(process: int) -> int:
    """What a process has in memory now."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(rollup.split("Rss:")[1].split()[0]) << 10


def port_of(host: Host) -> int:
    def listening() -> tuple[str, ...]:
        with at(host):
            return peering.around().listening

    until(lambda: bool(listening()))
    return int(listening()[0].rpartition(":")[2])


def own_name(host: Host, of: str) -> str:
    """What a host calls a device."""
    with at(host):
        return next((one.name for one in devices.gathering().members if one.id == of), "")


def rename(host: Host, of: str, title: str) -> None:
    with at(host):
        devices.rename(of, title)


async def refused(host: str, port: int) -> Why | None:
    """Dial as a stranger; why it came to nothing, None if there was a link."""
    me = device_named("stranger")
    own = Own(instance=os.urandom(16), hhd="0")
    transport = TcpTransport(me.id, certificate_of("stranger"), peer_device, own, trusted=lambda device: True)
    try:
        link = await transport.dial(host, port, None)
    except LinkError as error:
        return error.why
    link.cut("this should not be")
    return None


def test_a_device_that_is_put_out_is_cut_off_at_once_and_hears_nothing_more(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "phone") as net:
        laptop, desktop, phone = net["laptop"], net["desktop"], net["phone"]
        pair(net, "laptop", "desktop", "phone")
        with at(laptop) as me:
            named = me.text
        with laptop.daemon(), desktop.daemon(), phone.daemon():
            for one in (laptop, desktop, phone):
                until(lambda: len(linked(one)) == 2)  # noqa: B023
            rename(laptop, named, "before")
            until(lambda: own_name(desktop, named) == own_name(phone, named) == "before")
            with at(laptop):
                devices.unpair("desktop")
            assert linked(laptop) == {"phone"}  # When the command returns, it is done.
            until(lambda: linked(phone) == {"before"} and linked(desktop) == set())
            rename(laptop, named, "after")
            until(lambda: own_name(phone, named) == "after")
            for one in (laptop, phone):  # It tries once more with each of them, and they say no.
                tried = len(noted(one, "link_refused", address=desktop.ip4))
                desktop.hhd("peer", "add", one.ip4)
                until(lambda: len(noted(one, "link_refused", address=desktop.ip4)) > tried)  # noqa: B023
            assert linked(desktop) == set() and own_name(desktop, named) == "before"


@pytest.mark.long
def test_an_unpaired_daemon_gets_no_link_and_a_recorded_one_is_worth_nothing(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "stranger") as net:
        laptop, desktop, stranger = net["laptop"], net["desktop"], net["stranger"]
        pair(net, "laptop", "desktop")
        net.block_multicast()
        with laptop.daemon(), stranger.daemon():
            port = port_of(laptop)
            assert stranger.call(asyncio.run, refused(laptop.ip4, port)) is Why.REFUSED
            enough = threading.Event()
            recording = stranger.start(asyncio.run, recorded(laptop.ip4, port, 4000, enough))
            with desktop.daemon():
                desktop.hhd("peer", "add", f"{stranger.ip4}:4000")
                until(lambda: both_linked(laptop, desktop))  # By way of who records.
                enough.set()
                said = recording.result(240)
            until(lambda: not linked(laptop))
            answer = stranger.call(asyncio.run, replayed(laptop.ip4, port, said))
            # The server's first flight, and an alert: nothing that depends on what was said before.
            assert len(said) > 1000 and len(answer) < 3000
            assert not linked(laptop) and laptop.name.encode() not in answer


async def recorded(host: str, port: int, own_port: int, enough: threading.Event) -> bytes:
    """Pass a connection on until that is enough, and cut it; what the client said is returned."""
    said = bytearray()

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, into: bytearray) -> None:
        with contextlib.suppress(OSError):
            while raw := await source.read(65536):
                into += raw
                target.write(raw)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, port)
        ends.extend((writer, there_writer))
        await asyncio.gather(carry(reader, there_writer, said), carry(there_reader, writer, bytearray()))

    ends: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(accept, "0.0.0.0", own_port), asyncio.timeout(240):
        await asyncio.to_thread(enough.wait)
        for one in ends:
            one.transport.abort()
    return bytes(said)


async def replayed(host: str, port: int, said: bytes) -> bytes:
    """Say the same again, and return all that is answered."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(said)
    answer = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(10):
            while raw := await reader.read(65536):
                answer += raw
    writer.close()
    return answer


@pytest.mark.long
def test_slow_senders_and_garbage_take_no_place_from_an_honest_device(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "stranger") as net:
        laptop, desktop, stranger = net["laptop"], net["desktop"], net["stranger"]
        pair(net, "laptop", "desktop")
        with laptop.daemon() as daemon:
            port = port_of(laptop)
            before = resident_bytes(daemon.pid)
            crowd = stranger.call(connections, laptop.ip4, port, 400)
            with desktop.daemon():
                until(lambda: both_linked(laptop, desktop))
                for number, one in enumerate(crowd):
                    with contextlib.suppress(OSError):
                        one.send(
                            [b"\x16\x03\x01\xff\xff", os.urandom(2000), b"GET / HTTP/1.1\r\n\r\n", b"\x16"][number % 4]
                        )
                until(lambda: len(noted(laptop, "link_refused", address=stranger.ip4)) >= REFUSED_MIN)
                assert both_linked(laptop, desktop)
                assert resident_bytes(daemon.pid) < before + GROWN_BYTES_MAX
            for one in crowd:
                one.close()


def connections(host: str, port: int, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            found.append(socket.create_connection((host, port), timeout=5))
    return found


@pytest.mark.long
def test_a_flood_of_announcements_takes_bounded_memory_and_hides_nobody_for_long(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "stranger") as net:
        laptop, desktop, stranger = net["laptop"], net["desktop"], net["stranger"]
        pair(net, "laptop", "desktop")
        with laptop.daemon() as daemon:
            port_of(laptop)
            before = resident_bytes(daemon.pid)
            sent = stranger.call(flood, stranger.ip4, 6000)
            assert sent == 6000
            assert resident_bytes(daemon.pid) < before + GROWN_BYTES_MAX
            with desktop.daemon():
                until(lambda: both_linked(laptop, desktop))


@pytest.mark.long
def test_who_repeats_announcements_with_its_own_address_keeps_nobody_apart(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "stranger") as net:
        laptop, desktop, stranger = net["laptop"], net["desktop"], net["stranger"]
        pair(net, "laptop", "desktop")
        said: list[str] = []
        enough = threading.Event()
        repeating = stranger.start(repeat, stranger.ip4, 4000, said, enough)
        with laptop.daemon(), desktop.daemon():
            until(lambda: both_linked(laptop, desktop))
            until(lambda: len(set(said)) >= 2)  # It heard both, and said the same of itself.
            assert both_linked(laptop, desktop)
            desktop.hhd("restart")
            until(lambda: len(set(said)) >= 3)  # Also of the one that came anew.
            until(lambda: both_linked(laptop, desktop))
            enough.set()
            repeating.result(240)
            desktop.hhd("down")  # What began anew is nobody's child here.


def repeat(source: str, port: int, said: list[str], enough: threading.Event) -> None:
    """Say each announcement of others again until that is enough, with one's own address and port."""
    from zeroconf import ServiceInfo, Zeroconf

    listening = Zeroconf(interfaces=[source], use_asyncio=False)
    try:
        while not enough.wait(0.2):
            for record in list(listening.cache.entries_with_name(SERVICE)):
                name = getattr(record, "alias", "")
                info = ServiceInfo(SERVICE, name)
                if not name or not info.load_from_cache(listening) or info.port == port:
                    continue
                lie = ServiceInfo(
                    SERVICE, name, port=port, properties=info.properties, server="hhd-liar.local.",
                    addresses=[socket.inet_aton(source)],
                )  # fmt: skip
                listening.send(listening.generate_service_broadcast(lie, None))
                said.append(name)
    finally:
        listening.close()


def flood(source: str, count: int) -> int:
    """Announce instances of many names, ports, texts and addresses, as fast as it goes; odd ones among them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(source))
        for number in range(count):
            label = [os.urandom(8).hex(), "0" * 16, "<img onerror=x>", "x" * 60][number % 4 if number % 7 else 0]
            name, host = f"{label}.{SERVICE}", f"hhd-{number}.local."
            out = DNSOutgoing(const._FLAGS_QR_RESPONSE | const._FLAGS_AA)
            kind = const._CLASS_IN | const._CLASS_UNIQUE
            out.add_answer_at_time(DNSPointer(SERVICE, const._TYPE_PTR, const._CLASS_IN, 4500, name), 0)
            out.add_answer_at_time(DNSService(name, const._TYPE_SRV, kind, 4500, 0, 0, number % 65536, host), 0)
            text = b"".join(bytes([len(one)]) + one for one in (b"v=1", b"t=" + os.urandom(6 * (number % 40))))
            out.add_answer_at_time(DNSText(name, const._TYPE_TXT, kind, 4500, text), 0)
            for last in range(number % 30):
                address = bytes([203, 0, 113, last])
                out.add_answer_at_time(DNSAddress(host, const._TYPE_A, kind, 4500, address), 0)
            for packet in out.packets():
                wire.sendto(packet, ("224.0.0.251", 5353))
    return count
