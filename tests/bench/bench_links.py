"""Links against plain asyncio TLS between the same two processes, in turn: round trips, throughput, a head among pages.

With root also what an idle link sends, as an interface counts it in a network namespace.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.harness import paired, percentile, report
from tests.net import lab
from tests.transports.devices import certificate_of, device_named

from hhd.identity.certificates import peer_device
from hhd.transports.link import Channel, Link
from hhd.transports.stream import Own
from hhd.transports.tcp import TcpTransport

T = TypeVar("T")
COMMAND = "python -m tests.bench links"
SMALL = 4096
ROUNDS = 300
PIECE = 1024 * 1024
PIECES = 64
IDLE_SECONDS = 60


def transport(name: str) -> TcpTransport:
    """One of the two devices, which trust each other; both processes know all keys."""
    own = Own(instance=name.encode().ljust(16, b"."), hhd="bench")
    id = device_named(name).id
    return TcpTransport(id, certificate_of(name), peer_device, own, hosts=("0.0.0.0",), port=0, trusted=lambda _: True)


async def echo(channel: Channel) -> None:
    """Send everything back."""
    while (message := await channel.receive()) is not None:
        await channel.send(message)


async def sink(channel: Channel) -> None:
    """Take what comes, and say so after as many pieces as there are."""
    while True:
        for _ in range(PIECES):
            if await channel.receive() is None:
                return
        await channel.send(b"k")


async def accept(link: Link) -> None:
    """Serve the channels of one link."""
    async with asyncio.TaskGroup() as tasks:
        while True:
            channel = await link.accepted()
            tasks.create_task((sink if channel.name == "pages" else echo)(channel))


def context(server: bool) -> ssl.SSLContext:
    """TLS 1.3 as asyncio has it, with the same kind of certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    if server:
        shown = certificate_of("desktop")
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(shown.certificate + shown.key)
            made.load_cert_chain(file.name)
    else:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Plain asyncio TLS; the first byte says what for: an echo, as many bytes as there are, or those as messages."""
    try:
        what = await reader.readexactly(1)
        while True:
            if what == b"e":
                writer.write(await reader.readexactly(SMALL))
                await writer.drain()
                continue
            left = PIECES * PIECE
            while left:
                if what == b"m":
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    left -= len(await reader.readexactly(size))
                else:
                    got = len(await reader.read(256 * 1024))
                    if not got:
                        return
                    left -= got
            writer.write(b"k")
    except (asyncio.IncompleteReadError, ConnectionError):
        return


def serve(ports: Connection) -> None:
    """The other process."""

    async def work() -> None:
        listener = await transport("desktop").listen(accept)
        server = await asyncio.start_server(plain, "127.0.0.1", 0, ssl=context(True), limit=PIECE)
        ports.send((listener.port, server.sockets[0].getsockname()[1]))
        await server.serve_forever()

    asyncio.run(work())


class Bench:
    """A link and two plain connections to the other process, on one loop."""

    def __init__(self, ours: int, theirs: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.run(self._begin(ours, theirs))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def _begin(self, ours: int, theirs: int) -> None:
        self.link = await transport("laptop").dial("127.0.0.1", ours, device_named("desktop").id)
        self.small, self.pages = await self.link.open("sync", urgent=True), await self.link.open("pages")
        self.plain_small = await asyncio.open_connection("127.0.0.1", theirs, ssl=context(False), limit=PIECE)
        self.plain_pages = await asyncio.open_connection("127.0.0.1", theirs, ssl=context(False), limit=PIECE)
        self.plain_messages = await asyncio.open_connection("127.0.0.1", theirs, ssl=context(False), limit=PIECE)
        self.plain_small[1].write(b"e")
        self.plain_pages[1].write(b"p")
        self.plain_messages[1].write(b"m")

    async def round_trips(self) -> None:
        message = os.urandom(SMALL)
        for _ in range(ROUNDS):
            await self.small.send(message)
            assert await self.small.receive() == message

    async def plain_round_trips(self) -> None:
        message, (reader, writer) = os.urandom(SMALL), self.plain_small
        for _ in range(ROUNDS):
            writer.write(message)
            await writer.drain()
            assert await reader.readexactly(SMALL) == message

    async def throughput(self) -> None:
        for _ in range(PIECES):
            await self.pages.send(RANDOM)
        assert await self.pages.receive() == b"k"

    async def plain_throughput(self, messages: bool) -> None:
        reader, writer = self.plain_messages if messages else self.plain_pages
        for _ in range(PIECES):
            if messages:
                writer.write(PIECE.to_bytes(4, "big"))
            writer.write(RANDOM)
            await writer.drain()
        assert await reader.readexactly(1) == b"k"

    async def heads_among_pages(self) -> list[float]:
        """Round trips of 4 KiB while pages go as fast as they can, in milliseconds."""
        times: list[float] = []
        pages = asyncio.create_task(self.throughput())
        while not pages.done():
            begin = time.perf_counter()
            await self.small.send(RANDOM[:SMALL])
            await self.small.receive()
            times.append((time.perf_counter() - begin) * 1000)
        await pages
        return times


RANDOM = os.urandom(PIECE)


def idle_bytes() -> float:
    """What one idle link puts on the wire in both directions, bytes a second, everything below TLS counted."""
    with tempfile.TemporaryDirectory() as folder:
        net = lab.Net(("laptop", "desktop"), Path(folder), None)
        try:
            ready: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()

            def far() -> None:
                async def work() -> None:
                    listener = await transport("desktop").listen(accept)
                    ready.put(listener.port)
                    await asyncio.sleep(IDLE_SECONDS + 10)

                asyncio.run(work())

            def near(port: int) -> float:
                async def work() -> float:
                    await transport("laptop").dial(net["desktop"].ip4, port, device_named("desktop").id)
                    await asyncio.sleep(5)
                    before = sum(net.sent(name)[1] for name in ("laptop", "desktop"))
                    await asyncio.sleep(IDLE_SECONDS)
                    return (sum(net.sent(name)[1] for name in ("laptop", "desktop")) - before) / IDLE_SECONDS

                return asyncio.run(work())

            net["desktop"].start(far)
            return net["laptop"].call(near, ready.get())
        finally:
            net.close()


def main() -> None:
    """Measure and report."""
    here, there = multiprocessing.Pipe()
    other = multiprocessing.get_context("fork").Process(target=serve, args=(there,), daemon=True)
    other.start()
    try:
        bench = Bench(*here.recv())
        measured = paired(
            lambda: bench.run(bench.round_trips()), lambda: bench.run(bench.plain_round_trips()), n=40, warmup=3
        )
        report(
            f"{ROUNDS} round trips of 4 KiB on a link, against plain asyncio TLS", COMMAND, "warm", **measured,
            target="ratio at most 1.3",
        )  # fmt: skip
        for messages, what in ((False, "plain asyncio TLS, bytes as they come"), (True, "the same messages over it")):
            measured = paired(
                lambda: bench.run(bench.throughput()),
                lambda: bench.run(bench.plain_throughput(messages)),  # noqa: B023  Called in this very turn.
                n=15, warmup=2,
            )  # fmt: skip
            report(
                f"64 MiB in messages of 1 MiB on a link, against {what}", COMMAND, "warm", **measured,
                mb_per_second=round(PIECES * PIECE / 1000 / measured["median_ms"]),
                other_mb_per_second=round(PIECES * PIECE / 1000 / measured["other_median_ms"]),
                target="ratio at most 1.25 (80% of the throughput)",
            )  # fmt: skip
        heads = [one for _ in range(10) for one in bench.run(bench.heads_among_pages())]
        report(
            "a round trip of 4 KiB while 64 MiB of pages are sent", COMMAND, "warm", n=len(heads),
            median_ms=round(statistics.median(heads), 3), p99_ms=round(percentile(heads, 0.99), 3),
        )  # fmt: skip
    finally:
        other.kill()
        other.join()
    if (why := lab.missing()) is not None:
        print(f"idle bytes: {why}", file=sys.stderr)
        return
    report(
        "what an idle link sends, both ways, with all headers", COMMAND, "warm", n=1,
        bytes_per_second=round(idle_bytes(), 1), seconds=IDLE_SECONDS, target="at most 100",
    )  # fmt: skip


if __name__ == "__main__":
    main()
