"""Two real daemons are paired by a code, or are not: what strangers, guessers and listeners get is nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator

import pytest
from tests.net.clocks import Clock
from tests.net.conftest import LabMaker
from tests.net.lab import Host
from tests.net.paired import SECONDS, at, linked, pair, peers, until
from tests.transports.devices import certificate_of, device_named

from hhd.app import peering
from hhd.discovery.discovery import Discovery, Ears
from hhd.identity.certificates import peer_device
from hhd.node.answers.pairing import PairingStep
from hhd.transports.link import Channel, Link, LinkError
from hhd.transports.stream import Own
from hhd.transports.tcp import TcpTransport
from hhd_protocol.pairing import codes

pytestmark = pytest.mark.netns


class Command:
    """`hhd pair` on a host, and what it says."""

    def __init__(self, host: Host, *words: str) -> None:
        self.process = host.popen(
            sys.executable, "-u", "-m", "hhd", "pair", *words,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.said = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Read until it says something of this form."""
        assert self.process.stdout is not None
        with self._bounded():
            while (found := re.search(pattern, self.said)) is None:
                raw = self.process.stdout.read1(4096)  # type: ignore[attr-defined]
                assert raw, f"it ended with: {self.said}"
                self.said += raw.decode()
        return found

    def answer(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def ended(self) -> int:
        """Wait for its end; its exit status."""
        assert self.process.stdout is not None
        with self._bounded():
            self.said += self.process.stdout.read().decode()
            return self.process.wait()

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """Kill it where it goes on for longer than a test waits: a code that nobody uses stays open for minutes."""
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def words(command: Command) -> str:
    return command.until(r"\n    (\S+  \S+  \S+)\n")[1]


def test_two_devices_are_paired_by_two_commands_and_linked(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        with laptop.daemon(), desktop.daemon():
            shower, code = shown(laptop)
            guesser = Command(desktop, code)
            assert words(shower) == words(guesser)
            shower.answer("y")
            guesser.answer("y")
            assert guesser.ended() == 0 and shower.ended() == 0, guesser.said + shower.said
            until(lambda: both_linked_to_one(laptop, desktop))
            assert "linked at 10.77.0.1:" in desktop.hhd("devices").stdout or "linked at [fd77::1" in (
                desktop.hhd("devices").stdout
            )
            shower, code = shown(laptop, "--role", "store-only")  # Again: their one link goes on, and the code is good.
            guesser = Command(desktop, code)
            assert guesser.ended() == 3 and "paired with this one already" in guesser.said
            until(lambda: both_linked_to_one(laptop, desktop))
            assert shower.process.poll() is None and "used up" not in shower.said
            shower.process.terminate()
            shower.process.wait(SECONDS)


def shown(host: Host, *words: str) -> tuple[Command, str]:
    """A code that is open on a host."""
    shower = Command(host, *words)
    return shower, shower.until(r"hhd pair (\d{4}-\d{4})")[1]


def wrong(code: str) -> str:
    """Another code, as well formed."""
    return codes.shown(codes.code_of(bytes(15) + bytes([1 + (code[0] == "0")])))


def alone(*hosts: Host) -> bool:
    """Whether none of these hosts has another device."""
    return all(peers(host) == {} for host in hosts)


@pytest.mark.long
def test_a_wrong_guess_uses_the_code_up_and_the_right_one_comes_too_late(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "phone") as net:
        laptop, desktop, phone = net["laptop"], net["desktop"], net["phone"]
        with laptop.daemon(), desktop.daemon(), phone.daemon():
            shower, code = shown(laptop)
            guesser = Command(desktop, wrong(code), "--host", laptop.ip4)
            assert guesser.ended() == 3 and "That is not the code" in guesser.said
            assert shower.ended() == 3 and "used up" in shower.said
            late = Command(phone, code, "--host", laptop.ip4)
            assert late.ended() == 3 and alone(laptop, desktop, phone)
            shower, code = shown(laptop)  # And one that is right, and first.
            guesser = Command(phone, code, "--host", laptop.ip4)
            for one in (shower, guesser):
                words(one)
                one.answer("y")
            assert (shower.ended(), guesser.ended()) == (0, 0)
            until(lambda: both_linked_to_one(laptop, phone))
            assert alone(desktop)


def both_linked_to_one(*hosts: Host) -> bool:
    return all(len(linked(host)) == 1 for host in hosts)


@pytest.mark.long
def test_an_expired_code_a_declined_one_and_one_whose_command_ended_let_nobody_in(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "phone") as net:
        laptop, desktop = net["laptop"], net["desktop"]
        pair(net, "laptop", "phone")  # So it is in reach also while no code is open.
        clock = Clock(laptop)
        with laptop.daemon(**clock.environment), desktop.daemon():
            shower, code = shown(laptop)
            clock.sleep(301)
            assert shower.ended() == 3 and "in time" in shower.said
            guesser = Command(desktop, code, "--host", laptop.ip4)
            assert guesser.ended() == 3 and "no code" in guesser.said

            shower, code = shown(laptop)
            shower.process.terminate()
            shower.process.wait()
            until(lambda: Command(desktop, code, "--host", laptop.ip4).ended() == 3)

            shower, code = shown(laptop)
            guesser = Command(desktop, code)
            assert words(shower) == words(guesser)
            guesser.answer("y")
            shower.answer("n")
            assert (shower.ended(), guesser.ended()) == (3, 3)
            assert alone(desktop) and peers(laptop).keys() == {"phone"}


@pytest.mark.long
def test_a_code_is_found_after_it_was_closed_and_opened_again_at_once_and_after_a_wake(lab: LabMaker) -> None:
    with lab("laptop", "phone", "desktop", "router", "middle") as net:
        laptop, desktop, router = net["laptop"], net["desktop"], net["router"]
        pair(net, "laptop", "phone")  # So it is announced also while no code is open.
        pair(net, "desktop", "router")  # So it listens all the while, and looks for nobody whom it misses.
        clock = Clock(laptop)
        with laptop.daemon(**clock.environment), desktop.daemon(), router.daemon(), Listener(net["middle"]) as listener:
            until(lambda: both_linked_to_one(desktop, router))
            for wakes in (False, True):
                shower, _ = opened(laptop)
                until(lambda: listener.shown)
                if wakes:
                    clock.sleep(2)
                shower.close()
                until(lambda: not listener.shown)  # The desktop hears the same.
                shower, code = opened(laptop)
                guesser = Command(desktop, code)
                assert guesser.ended() == 3 and "Both devices are in groups" in guesser.said  # It was found.
                shower.close()
            assert peers(laptop).keys() == {"phone"} and peers(desktop).keys() == {"router"}


def opened(host: Host) -> tuple[Generator[PairingStep, None, None], str]:
    """A code that is open on a host, asked for in this process: a command would take longer to begin."""
    with at(host):
        steps = peering.pair_show("full")
        return steps, next(steps).code


class Listener:
    """What is heard on a host's network of who shows a code."""

    def __init__(self, host: Host) -> None:
        self._host, self._pairing = host, dict[bytes, bool]()
        self._end = asyncio.Event()

    @property
    def shown(self) -> bool:
        """Whether somebody shows one now."""
        return any(self._pairing.values())

    def __enter__(self) -> Listener:
        self._ended = self._host.start(asyncio.run, self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._ended.result(SECONDS)

    async def _listen(self) -> None:
        self._loop = asyncio.get_running_loop()
        ears = Ears(
            heard=lambda said, port, addresses: self._pairing.update({said.nonce: said.pairing}),
            gone=lambda nonce: self._pairing.update({nonce: False}),
            moved=lambda found: None,
        )
        discovery = Discovery(said=lambda name, filler: None, ears=ears, random=os.urandom)
        listening = asyncio.ensure_future(discovery.run())
        await self._end.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


class Shower:
    """A code that is open on a host, asked for in this process: a command would take longer to begin."""

    def __init__(self, host: Host) -> None:
        self._host = host
        with at(host):
            self._steps = peering.pair_show("full")
            self.code = next(self._steps).code

    def words(self) -> str:
        """What it shows once somebody typed the code."""
        return "  ".join(next(self._steps).words)

    def close(self) -> None:
        self._steps.close()


def test_a_man_in_the_middle_of_pairing_gets_nothing_and_one_who_only_forwards_cannot_harm(lab: LabMaker) -> None:
    with lab("laptop", "desktop", "middle", "router") as net:
        laptop, desktop, middle, router = (net[name] for name in ("laptop", "desktop", "middle", "router"))
        with laptop.daemon(), desktop.daemon():
            shower, code = shown(laptop)
            port = peering_port(laptop)
            relayed = middle.start(asyncio.run, both_ways(laptop.ip4, port, 4000))
            guesser = Command(desktop, code, "--host", f"{middle.ip4}:4000")
            assert guesser.ended() == 3 and shower.ended() == 3, guesser.said + shower.said
            assert "used up" in shower.said and alone(laptop, desktop)
            heard = relayed.result(SECONDS)
            assert len(heard) >= 2  # It was in the middle, and passed everything on.
            assert not any(code.replace("-", "").encode() in raw for raw in heard)

            shower, code = shown(laptop)
            # Not from the address of the one that failed: that has to wait.
            forwarder = router.start(asyncio.run, forward(laptop.ip4, port, 4001))
            guesser = Command(desktop, code, "--host", f"{router.ip4}:4001")
            for one in (shower, guesser):
                words(one)
                one.answer("y")
            assert (shower.ended(), guesser.ended()) == (0, 0)
            forwarder.result(SECONDS)


def peering_port(host: Host) -> int:
    with at(host):
        return int(peering.around().listening[0].rpartition(":")[2])


async def both_ways(host: str, port: int, own_port: int) -> list[bytes]:
    """Be a device in the middle of one pairing: end both connections, pass each message on; returns what was said."""
    me = device_named("middle")
    heard: list[bytes] = []
    over = asyncio.Event()

    def transport() -> TcpTransport:
        return TcpTransport(
            me.id,
            certificate_of("middle"),
            peer_device,
            Own(instance=os.urandom(16), hhd="0"),
            port=own_port,
            trusted=lambda device: False,
            pairing_open=lambda: True,
        )

    async def carry(source: Channel, target: Channel) -> None:
        with contextlib.suppress(LinkError):
            while (raw := await source.receive()) is not None:
                heard.append(raw)
                await target.send(raw)
        with contextlib.suppress(LinkError):
            await target.close()

    async def accept(link: Link) -> None:
        there = await transport().dial(host, port, None)
        one = await link.accepted()
        other = await there.open(one.name)
        await asyncio.gather(carry(one, other), carry(other, one))
        await there.close()
        over.set()

    listener = await transport().listen(accept)
    async with asyncio.timeout(SECONDS):
        await over.wait()
    await listener.close()
    return heard


async def forward(host: str, port: int, own_port: int) -> None:
    """Pass one connection on, byte for byte."""
    over = asyncio.Event()

    async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while raw := await source.read(65536):
                target.write(raw)
            target.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(carry(reader, there_writer), carry(there_reader, writer))
        over.set()

    async with await asyncio.start_server(accept, "0.0.0.0", own_port), asyncio.timeout(SECONDS):
        await over.wait()
