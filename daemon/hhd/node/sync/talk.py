"""The machine of sync being told what happened, and what comes of it being counted and collected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hhd.node.sync.out import Out
from hhd_protocol.ids import DeviceId
from hhd_protocol.sync import Sync, encode_message
from hhd_protocol.sync.events import Event, Output
from hhd_protocol.sync.messages import Message


@dataclass(kw_only=True)
class Counted:
    """What went over one peer's links since the daemon started, in bytes of messages."""

    sent: int = 0
    received: int = 0
    objects_sent: Counter[bytes] = field(default_factory=Counter)


class Talk:
    """What is told to `machine` and what is said to peers; `carry` does what the machine says."""

    def __init__(self, machine: Sync, now_ms: Callable[[], int], carry: Callable[[Output], None]) -> None:
        self.machine, self.now_ms, self._carry = machine, now_ms, carry
        self.counted: dict[DeviceId, Counted] = {}
        self.out = Out()

    def happens(self, event: Event) -> Out:
        """Give the machine an event, do what it says, and return what is left to do for who has the network."""
        return self.collected(lambda: self.feed(event))

    def collected(self, act: Callable[[], None]) -> Out:
        """Return what is left to do of all that `act` feeds to the machine."""
        outer, self.out = self.out, Out()
        try:
            act()
            return self.out
        finally:
            self.out = outer

    def feed(self, event: Event) -> None:
        """Give the machine an event in the middle of what another one brought."""
        for output in self.machine.handle(event, self.now_ms()):
            self._carry(output)

    def send(self, peer: DeviceId, message: Message) -> None:
        """Say a message to a peer, after all that was said before."""
        self.out.messages.append((peer, self.count(peer, encode_message(message))))

    def of(self, peer: DeviceId) -> Counted:
        """What went over a peer's links."""
        return self.counted.setdefault(peer, Counted())

    def count(self, peer: DeviceId, raw: bytes) -> bytes:
        """Count a message that goes out; return it."""
        self.of(peer).sent += len(raw)
        return raw
