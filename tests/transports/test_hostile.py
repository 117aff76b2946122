"""Whoever comes in over TCP gets what it may have and no more, and the honest device beside it stays served."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import functools
import multiprocessing
import os
import re
import socket
import ssl
import threading
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from tests.contracts.links import Trust, run
from tests.transports.devices import certificate_of, device_named

from hhd.base.errors import RefusedError
from hhd.identity.certificates import peer_device
from hhd.transports import sockets
from hhd.transports.link import PAIR, Link, LinkError, Why
from hhd.transports.stream import Own, Pace
from hhd.transports.tcp import Bounds, TcpListener, TcpTransport
from hhd.transports.tls import Certificate, Tls
from hhd_protocol import link as wire
from hhd_protocol.link import Hello, Kind

FEW = Bounds(pending=8, handshake_seconds=30, links=6, links_of_one=2, strangers=2, linger_seconds=0.2)
SHORT = dataclasses.replace(FEW, handshake_seconds=1)
"""Where somebody is waited for who never goes on; an honest device beside it is quicker, also on a busy machine."""
HELLO = wire.hello(Hello((1,), bytes(16), 1, "0.1"))


def transport(
    name: str, trust: Trust, *, bounds: Bounds | None = None, hello_seconds: float = 30, **more: object
) -> TcpTransport:
    own = Own(instance=name.encode().ljust(16, b"."), hhd="0.1", pace=Pace(hello_seconds=hello_seconds))
    given = {"hosts": ("127.0.0.1",), "port": 0, **more}
    return TcpTransport(
        device_named(name).id, certificate_of(name), peer_device, own, bounds=bounds,
        trusted=trust.trusted, pairing_open=trust.pairing_open, **given,
    )  # fmt: skip


@dataclass
class Served:
    """The desktop, listening; `ask` is what an honest laptop gets of it."""

    desktop: TcpTransport
    trust: Trust
    listener: TcpListener
    refused: list[Why] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.listener.port

    async def ask(self) -> Link:
        """Dial as the laptop, say something, hear it back, and return the link."""
        laptop = transport("laptop", Trust({self.desktop.me}))
        link = await laptop.dial("127.0.0.1", self.port, self.desktop.me)
        channel = await link.open("sync")
        await channel.send(b"hello?")
        assert await channel.receive() == b"hello?"
        return link

    async def quiet(self) -> None:
        """Wait until nobody is there who has not proven who it is."""
        while self.listener.pending:
            await asyncio.sleep(0.001)

    async def raw(self, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0))


@asynccontextmanager
async def served(bounds: Bounds | None = None, **more: float) -> AsyncIterator[Served]:
    trust = Trust({device_named("laptop").id})
    told: list[Why] = []
    desktop = transport("desktop", trust, bounds=bounds, refused=lambda _, error: told.append(error.why), **more)

    async def accept(link: Link) -> None:
        while True:
            channel = await link.accepted()
            while (message := await channel.receive()) is not None:
                await channel.send(message)

    listener = await desktop.listen(accept)
    try:
        yield Served(desktop, trust, listener, told)
    finally:
        await listener.close()
        for link in list(desktop.links):
            link.cut("the test is over")


def on_served(test: Callable[[Served], Awaitable[None]], bounds: Bounds | None = FEW, **more: float) -> None:
    async def work() -> None:
        async with served(bounds, **more) as desktop:
            await test(desktop)

    run(work())


async def shaken(
    port: int, shown: Certificate | Tls, *, session: object = None
) -> tuple[socket.socket, SSL.Connection]:
    """A TLS connection made by hand, of who has the key of `shown`."""
    own = socket.create_connection(("127.0.0.1", port))
    own.setblocking(False)
    made = shown if isinstance(shown, Tls) else Tls(shown)
    connection = SSL.Connection(made._context, own)
    connection.set_verify(SSL.VERIFY_PEER, lambda *_: True)
    connection.set_connect_state()
    if session is not None:
        connection.set_session(session)
    await patiently(connection.do_handshake)
    return own, connection


async def patiently(act: Callable[[], object]) -> object:
    """Do something on a socket that does not block."""
    while True:
        try:
            return act()
        except (SSL.WantReadError, SSL.WantWriteError):
            await asyncio.sleep(0.001)


async def all_of(connection: SSL.Connection) -> bytes:
    """What comes until the end."""
    found = b""
    while True:
        try:
            found += await patiently(lambda: connection.recv(65536))
        except SSL.Error:
            return found


# Before the handshake is over


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(1000),
        bytes(range(256)) * 16,
        b"\x16\x03\x01\xff\xff" + bytes(100),
        HELLO,
        b"\x16",
    ],
    ids=lambda raw: f"{len(raw)} bytes",
)
def test_garbage_before_the_handshake_is_told_nothing(raw: bytes) -> None:
    async def test(desktop: Served) -> None:
        reader, writer = await desktop.raw()
        writer.write(raw)
        said = await reader.read(-1)
        assert len(said) <= 7 and b"hhd" not in said  # An alert of TLS at most.
        writer.close()
        await desktop.quiet()
        assert desktop.refused
        await desktop.ask()

    on_served(test, SHORT)


def test_who_says_nothing_or_a_byte_at_a_time_is_cut_off() -> None:
    async def test(desktop: Served) -> None:
        silent, slow = await desktop.raw(), await desktop.raw()

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in b"\x16\x03\x01\x02\x00" + bytes(500):
                    slow[1].write(bytes([byte]))
                    await slow[1].drain()
                    await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        await desktop.ask()
        for reader, _ in (silent, slow):
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read(-1)) <= 7
        trickling.cancel()
        for _, writer in (silent, slow):
            writer.close()
        await desktop.quiet()

    on_served(test, SHORT)


def test_a_crowd_that_says_nothing_holds_few_places_and_an_honest_device_gets_in() -> None:
    async def test(desktop: Served) -> None:
        crowd = []
        for _ in range(10):
            crowd += [await desktop.raw() for _ in range(40)]
            await desktop.ask()
            assert desktop.listener.pending <= FEW.pending
        closed = [asyncio.create_task(reader.read(-1)) for reader, _ in crowd]
        await asyncio.wait(closed)
        for _, writer in crowd:
            writer.close()
        await desktop.quiet()

    on_served(test, SHORT)


@pytest.mark.parametrize(("crowds", "speaks"), [("127.0.0.1", False), ("127.0.0.9", True)])
def test_who_gives_a_place_up_is_of_the_crowd_and_silent_first(crowds: str, speaks: bool) -> None:
    async def test(desktop: Served) -> None:
        hello = client_hello()
        honest = await desktop.raw()
        honest[1].write(hello)
        answer = await honest[0].read(1)  # It is in the midst of its handshake now.
        crowd = []
        for _ in range(6 * FEW.pending):
            crowd.append(await desktop.raw(crowds))
            if speaks:
                crowd[-1][1].write(hello)
                with contextlib.suppress(ConnectionError):
                    await crowd[-1][0].read(1)
        assert answer and any(one.spoke and one.network == "127.0.0.1" for one in desktop.listener._pending.values())
        for _, writer in (honest, *crowd):
            writer.close()

    on_served(test, FEW)


def test_a_crowd_in_the_midst_of_its_handshakes_keeps_no_honest_device_out() -> None:
    async def test(desktop: Served) -> None:
        hello = client_hello()

        async def come() -> None:
            while True:
                with contextlib.suppress(ConnectionError):
                    reader, writer = await desktop.raw("127.0.0.9")
                    writer.write(hello)
                    await reader.read(-1)
                    writer.close()

        crowd = [asyncio.create_task(come()) for _ in range(30)]
        await asyncio.sleep(0.1)
        tries = 0
        for _ in range(5):
            while True:  # As whoever keeps a link does: again, if the crowd was quicker.
                tries += 1
                try:
                    (await desktop.ask()).cut("asked")
                    break
                except LinkError:
                    assert tries < 50
            assert desktop.listener.pending <= FEW.pending
        for one in crowd:
            one.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)

    on_served(test)


def client_hello() -> bytes:
    """The first thing that a client says in TLS."""
    connection = SSL.Connection(Tls(certificate_of("stranger"))._context, None)
    connection.set_connect_state()
    with contextlib.suppress(SSL.WantReadError):
        connection.do_handshake()
    return connection.bio_read(65536)


def test_an_older_tls_is_refused() -> None:
    async def test(desktop: Served) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", desktop.port, ssl=context)
        await desktop.ask()

    on_served(test)


def test_a_client_without_a_certificate_is_told_nothing() -> None:
    async def test(desktop: Served) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["hhd-link"])
        reader, writer = await asyncio.open_connection("127.0.0.1", desktop.port, ssl=context)
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert await reader.read(-1) == b""
        writer.close()
        assert not desktop.desktop.links
        await desktop.ask()

    on_served(test)


def test_a_stranger_is_cut_off_in_the_handshake_with_nothing_said() -> None:
    async def test(desktop: Served) -> None:
        own, connection = await shaken(desktop.port, certificate_of("stranger"))
        assert await all_of(connection) == b""
        own.close()
        own, connection = await shaken(desktop.port, certificate_of("laptop"))
        connection.send(HELLO)  # The positive control: a member is told who is there.
        assert (await patiently(lambda: connection.recv(65536))).startswith(wire.MAGIC)
        own.close()

    on_served(test)


def test_membership_is_asked_in_each_handshake_also_where_an_old_session_is_offered() -> None:
    async def test(desktop: Served) -> None:
        tls = Tls(certificate_of("laptop"))
        tls._context.set_session_cache_mode(SSL.SESS_CACHE_CLIENT)
        own, connection = await shaken(desktop.port, tls)
        connection.send(HELLO)
        assert (await patiently(lambda: connection.recv(65536))).startswith(wire.MAGIC)
        session = connection.get_session()
        own.close()
        desktop.trust.members.clear()
        asked = len(desktop.trust.asked)
        own, connection = await shaken(desktop.port, tls, session=session)
        assert await all_of(connection) == b"" and len(desktop.trust.asked) > asked
        own.close()

    on_served(test)


def signed(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey, end: datetime.datetime) -> Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "any name")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
        .not_valid_before(datetime.datetime(1971, 1, 1)).not_valid_after(end)
        .sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )  # fmt: skip
    return Certificate(
        certificate=made.public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def test_no_date_of_a_certificate_counts_so_that_no_clock_cuts_a_link() -> None:
    async def test(desktop: Served) -> None:
        key = ed25519.Ed25519PrivateKey.from_private_bytes(device_named("laptop").seed)
        shown = signed(key, datetime.datetime(1972, 1, 1))
        own, connection = await shaken(desktop.port, shown)
        connection.send(HELLO)
        assert (await patiently(lambda: connection.recv(65536))).startswith(wire.MAGIC)
        own.close()

    on_served(test)


def test_a_certificate_with_another_kind_of_key_is_of_no_device() -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.open = True  # Even while strangers may come in.
        shown = signed(ec.generate_private_key(ec.SECP256R1()), datetime.datetime(9999, 1, 1))
        context = SSL.Context(SSL.TLS_METHOD)
        context.use_certificate(x509.load_pem_x509_certificate(shown.certificate))
        own = socket.create_connection(("127.0.0.1", desktop.port))
        own.setblocking(False)
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        context.use_privatekey(load_pem_private_key(shown.key, None))  # type: ignore[arg-type]
        context.set_alpn_protos([b"hhd-link"])
        connection = SSL.Connection(context, own)
        connection.set_connect_state()
        await patiently(connection.do_handshake)
        assert await all_of(connection) == b""
        own.close()
        await desktop.ask()

    on_served(test)


def test_a_device_that_reaches_itself_makes_no_link() -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.members.add(desktop.desktop.me)
        with pytest.raises(LinkError) as caught:
            await desktop.desktop.dial("127.0.0.1", desktop.port, None)
        assert caught.value.why is Why.STRANGER and not desktop.desktop.links

    on_served(test)


# In the middle


class Proxy:
    """Passes on what two sides say, and keeps it; or stands between them with a key of its own."""

    def __init__(self, to: int, shown: Certificate | None = None) -> None:
        self._to, self._shown, self.said = to, shown, bytearray()
        self.plain = bytearray()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._to)
        tasks = [
            asyncio.create_task(self._pass(reader, out, True)),
            asyncio.create_task(self._pass(there, writer, False)),
        ]
        await asyncio.wait(tasks)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while raw := await reader.read(65536):
                if kept:
                    self.said += raw
                writer.write(raw)
        writer.close()


def test_a_recorded_handshake_is_worth_nothing() -> None:
    async def test(desktop: Served) -> None:
        proxy = Proxy(desktop.port)
        async with proxy as port:
            laptop = transport("laptop", Trust({desktop.desktop.me}))
            link = await laptop.dial("127.0.0.1", port, desktop.desktop.me)  # The positive control: it was good once.
            channel = await link.open("sync")
            await channel.send(b"hello?")
            assert await channel.receive() == b"hello?"
            link.cut("recorded")
        await asyncio.sleep(0)
        before = len(desktop.desktop.links)
        reader, writer = await desktop.raw()
        writer.write(proxy.said)
        with contextlib.suppress(ConnectionError):
            answer = await reader.read(-1)
            assert (
                len(answer) < 4000
            )  # The server's own flight, which says nothing but who it is to who may decrypt it.
        writer.close()
        assert len(desktop.desktop.links) <= before and desktop.refused
        await desktop.ask()

    on_served(test)


def test_a_man_in_the_middle_with_a_key_of_his_own_is_refused_by_both() -> None:
    async def test(desktop: Served) -> None:
        trust = Trust()
        middle = transport("mallory", Trust({device_named("laptop").id, desktop.desktop.me}))
        came: list[Link] = []

        async def accept(link: Link) -> None:
            came.append(link)

        listener = await middle.listen(accept)
        trust.members.add(desktop.desktop.me)
        laptop = transport("laptop", trust)
        with pytest.raises(LinkError) as caught:
            await laptop.dial("127.0.0.1", listener.port, desktop.desktop.me)
        assert caught.value.why is Why.STRANGER and not came
        with pytest.raises(LinkError) as caught:
            await middle.dial("127.0.0.1", desktop.port, desktop.desktop.me)
        assert caught.value.why is Why.REFUSED
        await listener.close()
        async with Proxy(desktop.port) as port:  # The positive control: one that only passes on is not noticed.
            await laptop.dial("127.0.0.1", port, desktop.desktop.me)

    on_served(test)


# After the handshake


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage", bytes(100), HELLO + b"\xff" * 100, HELLO + wire.frame(Kind.DATA, 1, bytes(100)),
        b"hhd-link\xff\xff" + bytes(70000), HELLO + wire.frame(Kind.OPEN, 1, b"sync") * 3,
        HELLO + wire.frame(Kind.OPEN, 1, b"sync") + wire.frame(Kind.DATA, 1, bytes(32000)) * 200,
    ],
    ids=lambda raw: f"{len(raw)} bytes",
)  # fmt: skip
def test_a_member_that_breaks_the_rules_loses_its_link_and_others_keep_theirs(raw: bytes) -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.members.add(device_named("phone").id)
        honest = await desktop.ask()
        own, connection = await shaken(desktop.port, certificate_of("phone"))
        with contextlib.suppress(SSL.Error):
            sent = 0
            while sent < len(raw):
                sent += await patiently(lambda: connection.send(raw[sent:]))  # noqa: B023  Called at once.
        await all_of(connection)
        own.close()
        while len(desktop.desktop.links) > 1:
            await asyncio.sleep(0.001)
        assert [link.peer for link in desktop.desktop.links] == [device_named("laptop").id]
        assert honest.error is None and await honest.answers(10)

    on_served(test)


def test_a_member_that_says_no_hello_is_cut_off() -> None:
    async def test(desktop: Served) -> None:
        own, connection = await shaken(desktop.port, certificate_of("laptop"))
        assert (await all_of(connection)).startswith(wire.MAGIC)
        while desktop.desktop.links:
            await asyncio.sleep(0.001)
        own.close()

    on_served(test, hello_seconds=0.5)


def test_of_too_many_links_of_one_device_the_oldest_go() -> None:
    async def test(desktop: Served) -> None:
        links = [await desktop.ask() for _ in range(5)]
        for old in links[:-2]:
            assert (await old.ended()).why is Why.LOST
        assert [await one.answers(10) for one in links[-2:]] == [True, True]

    on_served(test)


def test_there_are_as_many_links_as_may_be_and_the_first_ones_stay() -> None:
    async def test(desktop: Served) -> None:
        names = [f"device {number}" for number in range(FEW.links)]
        desktop.trust.members |= {device_named(name).id for name in names}
        links = []
        for name in names:
            other = transport(name, Trust({desktop.desktop.me}))
            links.append(await other.dial("127.0.0.1", desktop.port, desktop.desktop.me))
        with pytest.raises(LinkError):
            await desktop.ask()
        assert desktop.refused[-1] is Why.FULL
        links[0].cut("makes room")
        while len(desktop.desktop.links) >= FEW.links:
            await asyncio.sleep(0.001)
        await desktop.ask()
        assert [await one.answers(10) for one in links[1:]] == [True] * (FEW.links - 1)

    on_served(test)


def test_few_strangers_are_in_at_a_time_and_all_go_with_the_code() -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.open = True
        links = []
        for number in range(FEW.strangers):
            other = transport(f"stranger {number}", Trust())
            links.append(await other.dial("127.0.0.1", desktop.port, None))
        with pytest.raises(LinkError):
            await transport("one more", Trust()).dial("127.0.0.1", desktop.port, None)
        honest = await desktop.ask()
        channel = await links[0].open(PAIR)
        await channel.send(b"x")
        assert await channel.receive() == b"x"
        desktop.trust.open = False
        desktop.desktop.recheck()
        for link in links:
            assert (await link.ended()).why is Why.LOST
        assert await honest.answers(10)

    on_served(test)


def test_strangers_that_shake_hands_all_at_once_are_as_few_and_keep_no_member_out() -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.open = True
        certificates = [certificate_of(f"stranger {number}") for number in range(FEW.pending)]
        strangers = await asyncio.gather(*(shaken(desktop.port, one) for one in certificates))
        while len(desktop.refused) + len(desktop.desktop.links) < FEW.pending:  # Nobody has said hello yet.
            await asyncio.sleep(0.001)
        assert set(desktop.refused) == {Why.FULL} and len(desktop.desktop.links) == FEW.strangers
        for _, connection in strangers:
            with contextlib.suppress(SSL.Error):
                await patiently(functools.partial(connection.send, HELLO))
        assert await (await desktop.ask()).answers(10)
        assert len(desktop.desktop.links) <= FEW.strangers + 1
        for own, _ in strangers:
            own.close()

    on_served(test)


def test_a_member_that_shakes_hands_without_end_and_says_nothing_keeps_no_other_member_out() -> None:
    async def test(desktop: Served) -> None:
        desktop.trust.members.add(device_named("tower").id)
        mute = [await shaken(desktop.port, certificate_of("tower")) for _ in range(FEW.pending - 1)]
        while len(desktop.refused) + len(desktop.desktop.links) < len(mute):
            await asyncio.sleep(0.001)
        assert len(desktop.desktop.links) == 2 * FEW.links_of_one and set(desktop.refused) == {Why.FULL}
        assert await (await desktop.ask()).answers(10)
        for own, _ in mute:
            own.close()

    on_served(test)


# Addresses


def test_both_protocols_are_listened_on_at_one_port() -> None:
    async def work() -> None:
        async with served() as desktop:
            pass
        desktop.trust.members.add(device_named("laptop").id)
        both = transport("desktop", desktop.trust, hosts=("::", "0.0.0.0"))

        async def accept(link: Link) -> None:
            await link.ended()

        listener = await both.listen(accept)
        assert {port for _, port in listener.addresses} == {listener.port} and len(listener.addresses) == 2
        laptop = transport("laptop", Trust({both.me}))
        for host, shown in (("127.0.0.1", "127.0.0.1:"), ("::1", "[::1]:"), ("localhost", "")):
            link = await laptop.dial(host, listener.port, both.me)
            assert link.remote.startswith(shown)
            link.cut("seen")
        await listener.close()

    run(work())


def test_a_taken_port_is_said_if_it_was_chosen_and_another_is_found_if_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RefusedError, match=f"Port {port} is taken"):
            sockets.listening(("127.0.0.1",), port)
        monkeypatch.setattr(sockets, "PORT_DEFAULT", port)
        (found,) = sockets.listening(("127.0.0.1",), None)
        assert found.getsockname()[1] != port
        found.close()
    (found,) = sockets.listening(("127.0.0.1",), None)
    assert found.getsockname()[1] == port
    found.close()
    with pytest.raises(RefusedError, match="none of the addresses"):
        sockets.listening(("192.0.2.1",), 0)


def test_where_nobody_listens_or_is_known_nobody_is_reached() -> None:
    async def work() -> None:
        laptop = transport("laptop", Trust({device_named("desktop").id}))
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        for host in ("127.0.0.1", "no.such.host.invalid", "a..b", "x" * 300):
            with pytest.raises(LinkError) as caught:
                await laptop.dial(host, port, device_named("desktop").id)
            assert caught.value.why is Why.UNREACHABLE and "\n" not in str(caught.value)
            if host == "127.0.0.1":
                assert str(caught.value) == f"127.0.0.1:{port} cannot be reached: Connection refused."

    run(work())


def test_names_that_nobody_looks_up_keep_neither_other_dials_nor_the_end_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, answers, asked = socket.getaddrinfo, threading.Event(), list[str]()

    def silent(host: str, *given: object, **more: object) -> object:
        if host.endswith(".example"):
            if not more.get("flags"):  # Else it is only asked whether it is a number.
                asked.append(host)
                answers.wait(120)
            raise socket.gaierror("no such name")
        return real(host, *given, **more)  # type: ignore[arg-type]

    async def test(desktop: Served) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        laptop = transport("laptop", Trust({desktop.desktop.me}))
        dials = [asyncio.ensure_future(laptop.dial(f"silent{at}.example", 1, None)) for at in range(4)]
        while len(asked) < len(dials):
            await asyncio.sleep(0.001)
        assert await (await desktop.ask()).answers(10)
        for one in dials:
            one.cancel()

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    try:
        on_served(test)
        waiting = [one.name for one in threading.enumerate() if one.name.startswith("looks up silent")]
        assert len(waiting) == 4, "the end did not wait for them"
    finally:
        answers.set()


def test_a_listener_that_has_no_more_descriptors_goes_on_when_it_has() -> None:
    async def test(desktop: Served) -> None:
        real = desktop.listener._sockets[0]

        class Exhausted:
            left = 3

            def accept(self) -> tuple[socket.socket, object]:
                if Exhausted.left:
                    Exhausted.left -= 1
                    raise OSError(24, "Too many open files")
                return real.accept()

            def fileno(self) -> int:
                return real.fileno()

        silent = await desktop.raw()
        while desktop.listener.pending == 0:
            await asyncio.sleep(0)
        desktop.listener._loop.remove_reader(real)
        desktop.listener._loop.add_reader(real, desktop.listener._take, Exhausted())
        await desktop.ask()
        assert Exhausted.left == 0
        silent[1].close()

    on_served(test)


def _child(ports: Connection) -> None:
    async def work() -> None:
        async with served(None) as desktop:
            ports.send(desktop.port)
            await asyncio.Event().wait()

    asyncio.run(work())


def _memory(pid: int) -> int:
    """Kilobytes that a process has in memory."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0])


@pytest.mark.long
def test_thousands_of_connections_cost_little_memory_and_leave_nothing_behind() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    here, there = multiprocessing.Pipe()
    other = multiprocessing.get_context("spawn").Process(target=_child, args=(there,), daemon=True)
    other.start()
    assert other.pid is not None

    async def flood(desktop: Served, count: int) -> None:
        hello = client_hello()
        says = [b"", hello, b"GET / HTTP/1.1\r\n\r\n", hello[:50], bytes(5000)]

        async def come(what: bytes) -> None:
            with contextlib.suppress(OSError):
                reader, writer = await desktop.raw(f"127.0.0.{10 + count % 7}")
                writer.write(what)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await reader.read(-1)
                writer.close()

        for wave in range(count // 100):
            await asyncio.gather(*(come(says[(wave + one) % len(says)]) for one in range(100)))

    async def work() -> None:
        client = Served.__new__(Served)
        port = here.recv()
        client.desktop = transport("desktop", Trust())  # For its id.
        client.listener = cast(TcpListener, types.SimpleNamespace(port=port))
        await flood(client, 4000)  # What is used once is kept for the next time.
        (await client.ask()).cut("asked")
        grown = list[int]()
        while len(grown) < 4 and (not grown or min(grown) > 8 * 1024):
            # More may be there at once than ever before; what is left of each connection is left of those of any flood.
            before = _memory(other.pid or 0)
            await flood(client, 6000)
            (await client.ask()).cut("asked")
            grown.append(_memory(other.pid or 0) - before)
        assert min(grown) <= 8 * 1024, grown
        async with asyncio.timeout(240):  # Of the last ones it may not have heard yet that they went.
            while len(os.listdir(f"/proc/{other.pid}/fd")) > 100:
                await asyncio.sleep(0.05)

    try:
        run(work())
    finally:
        other.kill()
        other.join()
