"""Which other devices have answered what they know, since this one woke: what sessions wait for that go on alone.

Whoever advances a session reads it from a file (`hhd.node.around`). A session that rests for want of an answer is told
once that counts: the links to the other devices come up one after the other, and what one does not know another may.
"""

from __future__ import annotations

from collections.abc import Iterable

from hhd.node import around
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.limits import WAKE_WAIT_MS_MAX

ANSWERED_MS = 5_000
"""So long after the first link came up sessions that rest for want of an answer go on at the earliest."""


class Answered:
    """What the daemon says of that, and when it is told to those who wait."""

    def __init__(self) -> None:
        self.by: set[DeviceId] = set()
        """Full members that answered since this device woke, and are linked."""
        self.alone: set[SessionId] = set()
        """Sessions that go on by themselves."""
        self.is_known = False
        """Whether those that went on when the daemon began are among them."""
        self._attended: set[SessionId] = set()
        """Sessions that a person came to before that was known."""
        self._woke_ms = around.now_ms()
        self._linked_ms = 0
        """When the first link to a full member came up after there was none."""
        self._connected: frozenset[DeviceId] = frozenset()
        """Full members that are linked, as it was last said."""
        self._waits = False
        """Another device has answered, and those who wait for that have not been told."""

    def began(self, sessions: Iterable[SessionId]) -> None:
        """These went on by themselves when the daemon began."""
        self.alone |= set(sessions) - self._attended
        self.is_known = True
        self._attended.clear()

    def woke(self, running: Iterable[SessionId]) -> None:
        """This device slept: nobody has answered since, and nobody is at the sessions that run."""
        self.by.clear()
        self._woke_ms = around.now_ms()
        self.alone |= set(running)  # Who rests for want of an answer stays among them.
        self._attended -= self.alone

    def person(self, session: SessionId) -> bool:
        """A person is at a session here; say whether it went on alone until now."""
        alone = session in self.alone or not (self.is_known or session in self._attended)
        self.alone.discard(session)
        if not self.is_known:
            self._attended.add(session)
        return alone

    def hears(self, devices: Iterable[DeviceId]) -> None:
        """Full members have answered what they know."""
        self.by.update(devices)
        self._waits = True

    def say(self, connected: Iterable[DeviceId]) -> None:
        """Say to all who advance sessions how things stand; `connected`: full members that are linked."""
        before, self._connected = self._connected, frozenset(connected)
        if self._connected and not before:
            self._linked_ms = around.now_ms()
        around.write(
            around.Told(
                woke_ms=self._woke_ms,
                linked_ms=self._linked_ms,
                connected=self._connected,
                answered=frozenset(self.by & self._connected),
                alone=frozenset(self.alone) if self.is_known else None,
                attended=frozenset(self._attended),
            )
        )

    def due_ms(self) -> int | None:
        """When those who wait are to be told; None: not as things stand, or they have been.

        Never sooner than who just woke may go on (`protocol/spec/holding.md`, Waking), as of the first link there was.
        """
        answered = self.by & self._connected
        if not self._waits or not answered:
            return None
        since = max(self._woke_ms, self._linked_ms)
        return since + (ANSWERED_MS if answered == self._connected else WAKE_WAIT_MS_MAX)

    def is_due(self) -> bool:
        """Whether those who wait are to be told now; once for what was heard."""
        due = self.due_ms()
        if due is None or around.now_ms() < due:
            return False
        self._waits = False
        return True
