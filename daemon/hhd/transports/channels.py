"""One channel of a link over a stream of bytes: its windows, what waits to be sent, what came (`spec/link.md`).

Both directions are bounded: of what is sent, `QUEUE_BYTES` wait here at most, and no frame goes that the peer's window
has no room for; of what comes, a window is held unread at most, with whatever was asked for ahead of that, and who
sends more broke the rules.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from hhd.transports.link import LinkError, Why
from hhd_protocol import link as wire
from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import LINK_FRAME_BYTES_MAX, LINK_MESSAGE_BYTES_MAX, LINK_WINDOW_BYTES
from hhd_protocol.link import FRAME_COST_BYTES, Kind

QUEUE_BYTES = LINK_MESSAGE_BYTES_MAX
"""What waits on one channel besides the message that is being sent: enough that a link never runs dry in between."""

QUEUE_MESSAGES = 4096
"""Messages that wait on one channel: small ones take memory too."""

CREDIT_BYTES = LINK_WINDOW_BYTES // 4
"""So much is taken before it is given back: fewer would be a frame for each message, more would make the peer wait."""


class Owner(Protocol):
    """The link, as its channels know it."""

    def wants_to_send(self, channel: StreamChannel) -> None:
        """`channel` has a frame to send now."""

    def owes(self, channel: StreamChannel) -> None:
        """`channel` has credit to give back."""

    def over(self, channel: StreamChannel) -> None:
        """Both sides have ended `channel`."""

    def lend(self) -> bytearray:
        """Memory to put a message together in, of any size and content."""

    def give_back(self, lent: bytearray) -> None:
        """Nothing of what was lent is needed any more."""

    @property
    def error(self) -> LinkError | None:
        """Why the link ended, None while it has not."""


class StreamChannel:
    """A stream of messages in each direction; see `hhd.transports.link.Channel`."""

    def __init__(self, owner: Owner, number: int, name: str, *, urgent: bool) -> None:
        self._owner = owner
        self.number, self.name, self.urgent = number, name, urgent
        self._outgoing: deque[memoryview] = deque()
        self._outgoing_bytes = 0
        self._window = LINK_WINDOW_BYTES
        self._turn, self._space = asyncio.Lock(), asyncio.Event()
        self._incoming: deque[tuple[bytes, int, int]] = deque()
        """Messages, each with what it takes of the window until it is taken, and of what may wait ahead."""
        self._ahead = 0
        self._part: bytearray | None = None
        self._part_bytes = self._part_cost = 0
        self._room = LINK_WINDOW_BYTES
        self._taken = 0
        self._receiver: asyncio.Future[None] | None = None
        self._used = self._closed = self._ended_here = self._ended_there = False

    # For who uses the channel

    async def send(self, message: bytes) -> None:
        """See `Channel.send`."""
        size = len(message)
        if size > LINK_MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {size} bytes passes the bound of {LINK_MESSAGE_BYTES_MAX}")
        self._insist_on_open()
        if self._turn.locked() or not self._fits(size):
            async with self._turn:  # Who waits longest goes first.
                self._insist_on_open()
                while not self._fits(size):
                    self._space.clear()
                    await self._space.wait()
                    self._insist_on_open()
                self._put(message)
        else:
            self._put(message)

    async def receive(self) -> bytes | None:
        """See `Channel.receive`; one waits at a time."""
        assert self._receiver is None, "two wait for the next message of one channel"
        while not self._incoming:
            if self._closed:
                raise LinkError(Why.CLOSED, f"The channel {self.name} was closed here.")
            if self._ended_there:
                return None
            if self._owner.error is not None:
                raise self._owner.error.again()
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        return self._next()

    def receive_more(self) -> bytes | None:
        """See `Channel.receive_more`."""
        assert self._receiver is None, "somebody waits for the next message of this channel"
        return self._next() if self._incoming else None

    def _next(self) -> bytes:
        message, cost, ahead = self._incoming.popleft()
        self._ahead += ahead
        self._took(cost)
        if self._ended_there and self.may_send:
            self._owner.wants_to_send(self)
        return message

    def read_ahead(self, bytes_more: int) -> None:
        """See `Channel.read_ahead`."""
        self._ahead += bytes_more

    async def close(self) -> None:
        """See `Channel.close`."""
        if not self._closed:
            self._closed = True
            self._forget_incoming()
            self._wake()
            if self.may_send:
                self._owner.wants_to_send(self)

    # For the link: what goes

    def use(self) -> None:
        """Somebody has the channel now."""
        self._used = True
        if self._ended_there and self.may_send:
            self._owner.wants_to_send(self)

    @property
    def may_send(self) -> bool:
        """Whether the next frame may go now: there is one, and the peer has room for it."""
        if self._ended_here or self._owner.error is not None:
            return False
        if self._outgoing:
            return min(len(self._outgoing[0]), LINK_FRAME_BYTES_MAX) + FRAME_COST_BYTES <= self._window
        return self._end_is_due

    @property
    def unsent(self) -> bool:
        """Whether messages wait that the peer would take."""
        return bool(self._outgoing)

    def next_frame(self, buffer: bytearray, at: int) -> int:
        """Write the next frame to `buffer[at:]`, which has room for it, and return where it ends there."""
        begin = at + wire.HEADER_BYTES
        if not self._outgoing:
            assert self._end_is_due and not self._ended_here
            buffer[at:begin] = wire.header(Kind.END, self.number, 0)
            self._ended_here = True
            if self._ended_there:
                self._owner.over(self)
            return begin
        message = self._outgoing[0]
        size = min(len(message), LINK_FRAME_BYTES_MAX)
        last = size == len(message)
        buffer[at:begin] = wire.header(Kind.DATA, self.number, size, flag=last)
        buffer[begin : begin + size] = message[:size]
        if last:
            self._outgoing.popleft()
        else:
            self._outgoing[0] = message[size:]
        self._outgoing_bytes -= size
        self._window -= size + FRAME_COST_BYTES
        assert self._window >= 0
        self._space.set()
        return begin + size

    @property
    def _end_is_due(self) -> bool:
        """Whether this side's end is to go: its own wish, or the answer to the peer's end.

        The answer waits until what came was taken: until then the peer opens no other channel in the place of this
        one, so that what is held is bounded by channels that are open.
        """
        return self._closed or (self._ended_there and self._used and not self._incoming)

    def credit(self) -> int:
        """Return what is to be given back to the peer, which has it with that."""
        taken, self._taken = self._taken, 0
        self._room += taken
        return taken

    # For the link: what came

    def released(self, cost: int) -> None:
        """The peer took so much; raises FormatError if it was never sent."""
        self._window += cost
        if self._window > LINK_WINDOW_BYTES:
            raise FormatError("a credit is for more than was sent")
        if self.may_send:
            self._owner.wants_to_send(self)

    def take(self, content: bytes | memoryview, *, last: bool) -> None:
        """Take what came in a frame; raises FormatError for more than the window or a message may hold."""
        size = len(content)
        cost = size + FRAME_COST_BYTES
        if self._ended_there:
            raise FormatError("something came on a channel after its end")
        if cost > self._room:
            raise TooLargeError("more came than the window of a channel has room for")
        self._room -= cost
        if self._closed:
            return
        if last and self._part is None:
            self._came(bytes(content), cost)
        else:
            self._join(content, size, cost)
            if not last:
                return
            self._came(self._joined(), self._part_cost)
            self._part_bytes = self._part_cost = 0
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def _came(self, message: bytes, cost: int) -> None:
        """Hold a message until it is taken; what may wait ahead does not keep the peer from sending more."""
        ahead = cost if cost <= self._ahead else 0
        self._ahead -= ahead
        self._incoming.append((message, cost - ahead, ahead))
        self._took(ahead)

    def _took(self, cost: int) -> None:
        """Give so much of the window back, some at a time."""
        self._taken += cost
        if self._taken >= CREDIT_BYTES and not self._ended_there:
            self._owner.owes(self)

    def peer_ended(self) -> None:
        """The peer sends and takes nothing more; raises FormatError if that cannot be."""
        if self._ended_there:
            raise FormatError("a channel was ended twice")
        if self._part is not None:
            raise FormatError("a channel was ended within a message")
        self._ended_there = True
        self._forget_outgoing()
        if self._ended_here:
            self._owner.over(self)
        elif self.may_send:
            self._owner.wants_to_send(self)
        self._wake()

    def lost(self, *, forget: bool) -> None:
        """The link ended; `forget`: also what came before."""
        self._forget_outgoing()
        if forget:
            self._forget_incoming()
        self._wake()

    def _join(self, content: bytes | memoryview, size: int, cost: int) -> None:
        """Add a part to the message that is on its way, in memory that the link lends: fresh memory is dear."""
        end = self._part_bytes + size
        if end > LINK_MESSAGE_BYTES_MAX:
            raise TooLargeError(f"a message passes the bound of {LINK_MESSAGE_BYTES_MAX} bytes")
        if self._part is None:
            self._part = self._owner.lend()
        if end > len(self._part):
            self._part += bytes(min(max(end, 2 * len(self._part)), LINK_MESSAGE_BYTES_MAX) - len(self._part))
        self._part[self._part_bytes : end] = content
        self._part_bytes = end
        self._part_cost += cost

    def _joined(self) -> bytes:
        """Return the message that is whole now."""
        assert self._part is not None
        message = bytes(memoryview(self._part)[: self._part_bytes])
        self._owner.give_back(self._part)
        self._part = None
        return message

    def _put(self, message: bytes) -> None:
        self._outgoing.append(memoryview(message))
        self._outgoing_bytes += len(message)
        if self.may_send:
            self._owner.wants_to_send(self)

    def _fits(self, size: int) -> bool:
        return not self._outgoing or (
            self._outgoing_bytes + size <= QUEUE_BYTES and len(self._outgoing) < QUEUE_MESSAGES
        )

    def _insist_on_open(self) -> None:
        if self._owner.error is not None:
            raise self._owner.error.again()
        if self._closed or self._ended_there:
            who = "here" if self._closed else "by the peer"
            raise LinkError(Why.CLOSED, f"The channel {self.name} was closed {who}.")

    def _forget_outgoing(self) -> None:
        self._outgoing.clear()
        self._outgoing_bytes = 0

    def _forget_incoming(self) -> None:
        self._incoming.clear()
        self._part, self._part_bytes, self._part_cost = None, 0, 0

    def _wake(self) -> None:
        self._space.set()
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)
