"""What one link sends: put into one small batch at a time, in the order in which it matters (`spec/link.md`).

Each batch is chosen anew, so what is urgent waits behind one batch at most, and behind what the system has taken
already. First goes what the link itself says, then answers and questions for a sign of life, then credit; then the
messages of channels, each channel in turn, urgent ones first, as far as the bandwidth allows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from hhd.transports.bandwidth import Bucket
from hhd.transports.channels import StreamChannel
from hhd_protocol import link as wire
from hhd_protocol.limits import LINK_FRAME_BYTES_MAX
from hhd_protocol.link import HEADER_BYTES, Kind

BATCH_BYTES = 64 * 1024
"""What is chosen at a time: large enough that choosing costs nothing to speak of, 5 ms at 100 Mbit/s."""


class Outgoing:
    """What waits to be sent on a link, and the batch in hand.

    `write` takes some of what it is given and returns how many bytes; `bytes_per_second` says how fast messages may go
    (0: as fast as they can); `again` is called when more of them may.
    """

    def __init__(
        self, write: Callable[[memoryview], int], bytes_per_second: Callable[[], float], *, again: Callable[[], None]
    ) -> None:
        self._write, self._bytes_per_second, self._again = write, bytes_per_second, again
        self._loop = asyncio.get_running_loop()
        self.is_blocked = False
        """Whether the wire takes nothing now: who owns it says when it does."""
        self.pong: int | None = None
        """The question for a sign of life that is to be answered."""
        self.ping: int | None = None
        """The one that is to be asked."""
        self._batch = bytearray(BATCH_BYTES + 2 * (HEADER_BYTES + LINK_FRAME_BYTES_MAX))
        self._batch_view = memoryview(self._batch)
        self._begin = self._end = 0
        self._is_over = False
        self._control: deque[bytes] = deque()
        self._owing: dict[StreamChannel, None] = {}
        self._ready: tuple[dict[StreamChannel, None], dict[StreamChannel, None]] = ({}, {})
        self._bucket: Bucket | None = None
        self._bucket_rate = 0.0
        self._refill: asyncio.TimerHandle | None = None

    def say(self, frame: bytes) -> None:
        """Send a frame of the link itself, in order with the others."""
        self._control.append(frame)

    def wants(self, channel: StreamChannel) -> None:
        """`channel` has a frame to send."""
        self._ready[0 if channel.urgent else 1][channel] = None

    def owes(self, channel: StreamChannel) -> None:
        """`channel` has credit to give back."""
        self._owing[channel] = None

    def owes_no_more(self, channel: StreamChannel) -> None:
        """`channel` is over."""
        self._owing.pop(channel, None)

    def drop_messages(self) -> None:
        """What channels still have to send does not go any more."""
        for ready in self._ready:
            ready.clear()

    def stop(self) -> None:
        """The link ended: nothing goes from now on."""
        self._is_over = True
        if self._refill is not None:
            self._refill.cancel()

    @property
    def is_waiting(self) -> bool:
        """Whether something of the link itself, or of the batch in hand, has not gone yet."""
        return self._begin < self._end or bool(self._control)

    def pump(self) -> None:
        """Send what may go, until the wire has no room or nothing is left."""
        while not self.is_blocked and not self._is_over:
            if self._begin == self._end and not self._fill():
                return
            self._begin += self._write(self._batch_view[self._begin : self._end])
            if self._begin < self._end:
                self.is_blocked = True

    def _fill(self) -> bool:
        """Choose the next batch; False: there is none now."""
        self._begin = end = 0
        batch = self._batch
        while self._control and end < BATCH_BYTES:
            raw = self._control.popleft()
            batch[end : end + len(raw)] = raw
            end += len(raw)
        if self.pong is not None:
            end = self._put(end, wire.frame(Kind.PONG, 0, wire.number(self.pong)))
            self.pong = None
        if self.ping is not None:
            end = self._put(end, wire.frame(Kind.PING, 0, wire.number(self.ping)))
            self.ping = None
        while self._owing and end < BATCH_BYTES:
            channel = next(iter(self._owing))
            del self._owing[channel]
            end = self._put(end, wire.frame(Kind.CREDIT, channel.number, wire.credit(channel.credit())))
        limit = self._limit(end)
        for ready in self._ready:
            while ready and end < limit:
                channel = next(iter(ready))
                del ready[channel]
                if channel.may_send:
                    end = channel.next_frame(batch, end)
                    if channel.may_send:
                        ready[channel] = None  # Behind the others: each in turn.
        self._end = end
        if self._bucket is not None:
            self._bucket.spend(end)
        return end > 0

    def _put(self, end: int, raw: bytes) -> int:
        self._batch[end : end + len(raw)] = raw
        return end + len(raw)

    def _limit(self, end: int) -> int:
        """Up to where the batch may be filled with what counts against the bandwidth."""
        rate = self._bytes_per_second()
        if rate <= 0:
            self._bucket = None
            return BATCH_BYTES
        now = self._loop.time()
        if self._bucket is None or rate != self._bucket_rate:
            self._bucket, self._bucket_rate = Bucket(rate, now), rate
        allowed = self._bucket.allowed(now) - end
        if allowed > 0:
            return min(BATCH_BYTES, end + int(allowed) + 1)
        if any(self._ready) and self._refill is None:
            self._refill = self._loop.call_later(self._bucket.wait_seconds, self._refilled)
        return 0

    def _refilled(self) -> None:
        self._refill = None
        self._again()
