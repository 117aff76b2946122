"""A link over any stream of bytes: hello, channels, keepalive, an orderly end (`spec/link.md`).

What carries the bytes is a `Wire`; it calls in, from the loop's thread, when bytes came, when it has room again, and
when it broke. Nothing is ever read ahead of a bound: what a peer can make this side hold is the decoder's buffer and a
window a channel. What goes, and in what order, is in `outgoing.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hhd.transports.channels import StreamChannel
from hhd.transports.link import PAIR, LinkError, Why
from hhd.transports.outgoing import Outgoing
from hhd_protocol import link as wire
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import LINK_BYE_BYTES_MAX, LINK_CHANNELS_MAX, LINK_NAME_BYTES_MAX
from hhd_protocol.link import NUMBER_MAX, Decoder, Frame, Hello, Kind


class Wire(Protocol):
    """What carries the bytes of a link."""

    remote: str
    """The address of the other end, for showing."""

    def write(self, raw: memoryview) -> int:
        """Take some of `raw` and return how many; after fewer than all it calls `StreamLink.has_room` once it can."""

    def finish(self) -> None:
        """Send what was taken, then end the connection; nothing more is called."""

    def abort(self) -> None:
        """End the connection at once; nothing more is called."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long a link waits for what, in seconds."""

    hello_seconds: float = 5
    """For the peer's hello: it comes within two round trips."""

    keepalive_seconds: float = 10
    """Of silence, after which the peer is asked for a sign of life: some 30 bytes a second."""

    silence_seconds: float = 15
    """For that sign of life; then the link is lost. A radio that changes cells is silent for some seconds."""

    wake_seconds: float = 1
    """For a sign of life after this device slept: the peer has most likely given the link up meanwhile."""

    slept_seconds: float = 3
    """A pause of this process, by a clock that counts sleep, that is taken for sleep."""

    look_seconds: float = 1
    """How often all this is looked at."""

    close_seconds: float = 2
    """For what waits to be sent when a link is closed."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Who is at the two ends of a connection, as the handshake proved."""

    me: DeviceId
    peer: DeviceId
    dialled: bool
    trusted: bool


@dataclass(frozen=True, kw_only=True)
class Own:
    """What this side says of itself, and how it keeps links."""

    instance: bytes
    hhd: str
    versions: tuple[int, ...] = wire.VERSIONS
    pace: Pace = Pace()
    bytes_per_second: Callable[[], float] = lambda: 0
    """How fast each link may send; 0: as fast as it can."""


def slept_clock() -> float:
    """Seconds of a clock that goes on while the device sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class StreamLink:
    """See `hhd.transports.link.Link`. Use it after `greeted` returned."""

    version = 0
    instance = b""

    def __init__(
        self, carrier: Wire, ends: Ends, own: Own, *, dials: int, clock: Callable[[], float] = slept_clock
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._wire, self._own, self._clock = carrier, own, clock
        self.peer, self.dialled, self.trusted, self.remote = ends.peer, ends.dialled, ends.trusted, carrier.remote
        self._me, self._dials = ends.me, dials
        self.precedence = (False, 0)
        self._decoder = Decoder()
        self._greeting: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Future[LinkError] = self._loop.create_future()
        self.error: LinkError | None = None
        # Channels
        self._channels: dict[int, StreamChannel] = {}
        self._next_own = 1 if ends.dialled else 2
        self._next_theirs = 2 if ends.dialled else 1
        self._arrived: deque[StreamChannel] = deque()
        self._changed = asyncio.Event()
        self._spare: list[bytearray] = []
        self._going = Outgoing(carrier.write, own.bytes_per_second, again=self._pump)
        # Signs of life
        self._heard = self._asked_at = self._loop.time()
        self._signs = self._pings = self._answered = 0
        self._asked = False
        self._slept = clock()
        self._look: asyncio.TimerHandle | None = self._loop.call_later(own.pace.look_seconds, self._look_around)
        self._patience: asyncio.TimerHandle | None = self._loop.call_later(own.pace.hello_seconds, self._no_hello)
        self._going.say(wire.hello(Hello(own.versions, own.instance, dials, own.hhd)))
        self._closing = False

    # For who uses the link

    async def greeted(self) -> None:
        """Wait for the peer's hello; raises LinkError if none comes, or none with a version that both speak."""
        self._pump()
        await self._greeting

    async def open(self, name: str, *, urgent: bool = False) -> StreamChannel:
        """See `Link.open`; waits while as many are open as may be."""
        if not 1 <= len(name) <= LINK_NAME_BYTES_MAX or not (self.trusted or name == PAIR):
            raise ValueError(f"a channel named {name!r} cannot be opened on this link")
        while self._count(own=True) >= LINK_CHANNELS_MAX and self.error is None and not self._closing:
            self._changed.clear()
            await self._changed.wait()
        self._insist_on_open()
        channel = StreamChannel(self, self._next_own, name, urgent=urgent)
        self._channels[channel.number] = channel
        channel.use()
        self._next_own += 2
        self._going.say(wire.frame(Kind.OPEN, channel.number, name.encode("ascii"), flag=urgent))
        self._pump()
        return channel

    async def accepted(self) -> StreamChannel:
        """See `Link.accepted`."""
        while not self._arrived:
            if self.error is not None:
                raise self.error.again()
            self._changed.clear()
            await self._changed.wait()
        channel = self._arrived.popleft()
        channel.use()
        return channel

    async def answers(self, seconds: float) -> bool:
        """See `Link.answers`."""
        if self.error is not None:
            return False
        signs = self._signs
        ping = self._ask()
        until = self._loop.time() + seconds
        while self.error is None and self._answered < ping:
            left = until - self._loop.time()
            if left <= 0:
                if self._signs == signs:  # Else it is only slow: the answer waits behind what is on its way.
                    self._finish(LinkError(Why.LOST, f"The other device gave no sign of life within {seconds:g} s."))
                break
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        return self.error is None

    async def close(self, reason: str = "") -> None:
        """See `Link.close`."""
        if self.error is not None or self._closing:
            return
        self._closing = True
        until = self._loop.time() + self._own.pace.close_seconds
        while self._unsent() and self.error is None and (left := until - self._loop.time()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        if self.error is not None:
            return
        text = reason.encode("utf-8", "replace")[:LINK_BYE_BYTES_MAX].decode("utf-8", "ignore")
        self._going.say(wire.frame(Kind.BYE, 0, text.encode()))
        self._going.drop_messages()
        self._pump()
        self._finish(LinkError(Why.CLOSED, f"The link was closed here: {text or 'no reason was given'}."), orderly=True)

    def cut(self, reason: str) -> None:
        """See `Link.cut`."""
        self._finish(LinkError(Why.CLOSED, f"The link was cut here: {reason}."), forget=True)

    async def ended(self) -> LinkError:
        """See `Link.ended`."""
        return await asyncio.shield(self._over)

    def when_over(self, call: Callable[[], None]) -> None:
        """Call `call` once the link ended."""
        self._over.add_done_callback(lambda _: call())

    # For the wire

    def room(self) -> memoryview:
        """The memory that the next bytes from the peer belong into: never empty."""
        return self._decoder.room()

    def received(self, count: int) -> None:
        """Take the first `count` bytes of `room()`."""
        if self.error is not None:
            return
        self._heard = self._loop.time()
        self._signs += 1
        self._asked = False
        try:
            said, frames = self._decoder.filled(count)
            if said is not None:
                self._greet(said)
            for one in frames:
                if self.error is not None:
                    return
                self._take(one)
        except FormatError as error:
            self._finish(LinkError(Why.FAULT, f"The other device broke the rules: {error}."), forget=True)
            return
        self._changed.set()
        self._pump()

    def has_room(self) -> None:
        """The wire takes bytes again."""
        self._going.is_blocked = False
        self._pump()

    def broke(self, error: LinkError) -> None:
        """The connection is gone."""
        self._finish(error)

    # For the channels

    def wants_to_send(self, channel: StreamChannel) -> None:
        """See `Owner`."""
        self._going.wants(channel)
        self._pump()

    def owes(self, channel: StreamChannel) -> None:
        """See `Owner`."""
        self._going.owes(channel)
        self._pump()

    def over(self, channel: StreamChannel) -> None:
        """See `Owner`."""
        self._channels.pop(channel.number, None)
        self._going.owes_no_more(channel)
        self._changed.set()

    def lend(self) -> bytearray:
        """See `Owner`."""
        return self._spare.pop() if self._spare else bytearray()

    def give_back(self, lent: bytearray) -> None:
        """See `Owner`."""
        if not self._spare:
            self._spare.append(lent)

    # What came

    def _greet(self, said: Hello) -> None:
        version = wire.common(self._own.versions, said.versions)
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if version is None:
            older = "the other device is older" if said.versions[0] < self._own.versions[-1] else "this device is older"
            text = f"The two have no version of the protocol in common (there: hhd {said.hhd}): {older}; upgrade it."
            self._pump()  # So that the other side can say so too.
            self._finish(LinkError(Why.VERSION, text), orderly=True)
            return
        if (said.dials > 0) == self.dialled:
            raise FormatError("a hello is of the wrong side")
        self.version, self.instance = version, said.instance
        ends = (self._me, self.peer) if self.dialled else (self.peer, self._me)
        self.precedence = wire.precedence(*ends, self._dials if self.dialled else said.dials)
        if not self._greeting.done():
            self._greeting.set_result(None)

    def _take(self, one: Frame) -> None:
        match one.kind:
            case Kind.DATA:
                self._channel(one.channel).take(one.content, last=one.flag)
            case Kind.CREDIT:
                self._channel(one.channel).released(int.from_bytes(one.content, "big"))
            case Kind.OPEN:
                self._opened(one)
            case Kind.END:
                self._channel(one.channel).peer_ended()
            case Kind.PING:
                self._going.pong = int.from_bytes(one.content, "big")
            case Kind.PONG:
                answered = int.from_bytes(one.content, "big")
                if answered > self._pings:
                    raise FormatError("a pong answers no ping")
                self._answered = max(self._answered, answered)
            case Kind.BYE:
                reason = bytes(one.content).decode("utf-8") or "no reason was given"
                self._finish(LinkError(Why.CLOSED, f"The other device closed the link: {reason}."), orderly=True)

    def _channel(self, number: int) -> StreamChannel:
        channel = self._channels.get(number)
        if channel is None:
            raise FormatError("a frame is for a channel that is not open")
        return channel

    def _opened(self, one: Frame) -> None:
        if one.channel != self._next_theirs:
            raise FormatError("a channel is opened out of turn")
        if self._count(own=False) >= (LINK_CHANNELS_MAX if self.trusted else 1):
            raise FormatError("more channels are opened than may be")
        name = bytes(one.content).decode("ascii")
        if not self.trusted and name != PAIR:
            raise FormatError("a stranger opens a channel that is for members")
        self._next_theirs += 2
        channel = StreamChannel(self, one.channel, name, urgent=one.flag)
        self._channels[one.channel] = channel
        self._arrived.append(channel)

    def _count(self, *, own: bool) -> int:
        parity = self._next_own % 2 if own else self._next_theirs % 2
        return sum(number % 2 == parity for number in self._channels)

    # What goes

    def _pump(self) -> None:
        """Send what may go, until the wire has no room or nothing is left."""
        self._going.pump()
        if self._closing:
            self._changed.set()

    def _unsent(self) -> bool:
        return self._going.is_waiting or any(one.unsent for one in self._channels.values())

    # Signs of life

    def _look_around(self) -> None:
        pace, now, slept = self._own.pace, self._loop.time(), self._clock()
        paused, self._slept = slept - self._slept, slept
        self._look = self._loop.call_later(pace.look_seconds, self._look_around)
        if paused > pace.look_seconds + pace.slept_seconds:
            self._ask()
            self._asked_at = now - pace.silence_seconds + pace.wake_seconds
        elif self._asked:
            if now - self._asked_at >= pace.silence_seconds:
                self._finish(LinkError(Why.LOST, "The other device gave no sign of life."))
        elif now - self._heard >= pace.keepalive_seconds:
            self._spare.clear()
            self._ask()

    def _ask(self) -> int:
        """Ask for a sign of life; returns which question this is."""
        assert self._pings < NUMBER_MAX
        self._pings += 1
        self._going.ping = self._pings
        self._asked = True
        self._asked_at = self._loop.time()
        self._pump()
        return self._pings

    def _no_hello(self) -> None:
        self._patience = None
        self._finish(LinkError(Why.LOST, "The other device said no hello in time."))

    # The end

    def _insist_on_open(self) -> None:
        if self.error is not None:
            raise self.error.again()
        if self._closing:
            raise LinkError(Why.CLOSED, "The link is being closed here.")

    def _finish(self, error: LinkError, *, orderly: bool = False, forget: bool = False) -> None:
        """End the link, once."""
        if self.error is not None:
            return
        self.error = error
        for timer in (self._look, self._patience):
            if timer is not None:
                timer.cancel()
        self._going.stop()
        if orderly and not self._going.is_blocked:
            self._wire.finish()
        else:
            self._wire.abort()
        for channel in self._channels.values():
            channel.lost(forget=forget)
        if forget:
            self._arrived.clear()
        self._changed.set()
        if not self._greeting.done():
            self._greeting.set_exception(error.again())
            self._greeting.exception()  # Whoever waits raises it; if nobody does, that is no fault.
        self._over.set_result(error)
