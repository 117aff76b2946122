"""What there is to do after something happened to the sync of this device."""

from __future__ import annotations

from dataclasses import dataclass, field

from hhd_protocol.ids import DeviceId, SessionId


@dataclass(kw_only=True)
class Out:
    """What there is to do after something happened.

    `messages`: to send, in order. `content`: peers for whom `next_part` has something. `cuts`: links to end, with the
    reason. `answered`: who answered since this device woke. `fenced`, `changed`: sessions that this device may not
    advance any more, and those that are otherwise here. `trouble`: why something was not done, in words; it is tried
    again.
    """

    messages: list[tuple[DeviceId, bytes]] = field(default_factory=list)
    content: set[DeviceId] = field(default_factory=set)
    cuts: list[tuple[DeviceId, str]] = field(default_factory=list)
    answered: set[DeviceId] = field(default_factory=set)
    fenced: set[SessionId] = field(default_factory=set)
    changed: set[SessionId] = field(default_factory=set)
    acknowledged: set[SessionId] = field(default_factory=set)
    trouble: str = ""

    def join(self, other: Out) -> Out:
        """Put what another one says behind this; return this."""
        self.messages += other.messages
        self.content |= other.content
        self.cuts += other.cuts
        self.answered |= other.answered
        self.fenced |= other.fenced
        self.changed |= other.changed
        self.acknowledged |= other.acknowledged
        self.trouble = other.trouble or self.trouble
        return self
