"""What a link to another device is, whatever carries it: `tests/contracts/links.py` holds every transport to this.

A link has one device at its other end, whose key was proven before anything was said. It carries channels: streams of
messages, each for one machine ("group", "sync", "pages", "registry", "handoff", "live"). Messages of a channel come in
order, whole and once, or the link ends; nothing is said about order between channels, except that what is urgent goes
first. A link that ended has lost what was on its way: whoever used it asks anew on the next one.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Protocol

from hhd_protocol.ids import DeviceId

PAIR = "pair"
"""The only channel of a link to a device that is not trusted."""

Trusted = Callable[[DeviceId], bool]
"""Whether a device is a member now; asked in every handshake, of the dialled and of who dials."""

PairingOpen = Callable[[], bool]
"""Whether a code is open now, so that a stranger may come in for the channel `PAIR` alone."""


class Why(enum.Enum):
    """The kinds of reason for which a link could not be made, or ended."""

    CLOSED = "closed"
    """One side closed it on purpose, and said so."""
    LOST = "lost"
    """The connection broke, or nothing came for too long."""
    UNREACHABLE = "unreachable"
    """Nobody listens there, or nothing gets there."""
    REFUSED = "refused"
    """The other device did not let this one in: for it, this one is a stranger."""
    STRANGER = "stranger"
    """The other end is not the device that was dialled, or none that is trusted here."""
    VERSION = "version"
    """The two have no version of the protocol in common."""
    FAULT = "fault"
    """The other device broke the rules of the protocol."""
    FULL = "full"
    """There are as many links as may be."""


class LinkError(Exception):
    """A link that could not be made, or that ended under who used it; the text is one sentence."""

    def __init__(self, why: Why, text: str) -> None:
        super().__init__(text)
        self.why = why

    def again(self) -> LinkError:
        """Return one of the same kind and text, to raise for another who waits: a traceback is of one."""
        return LinkError(self.why, str(self))


class Channel(Protocol):
    """A stream of messages in each direction, on one link."""

    name: str

    async def send(self, message: bytes) -> None:
        """Send one message of at most `LINK_MESSAGE_BYTES_MAX` bytes; waits while as much waits as may.

        Returning says that it is on its way, not that it came. Raises LinkError if the link or the channel ended, and
        ValueError for a message that is too large.
        """

    async def receive(self) -> bytes | None:
        """Return the next message, None once the peer ended the channel and all was read; raises LinkError."""

    def receive_more(self) -> bytes | None:
        """Return the next message if it is here already, else None; in the order of `receive`, nobody being in that."""

    def read_ahead(self, bytes_more: int) -> None:
        """Let so many bytes of messages more wait here to be taken, while the peer sends on."""

    async def close(self) -> None:
        """Say that nothing more is sent, after all that was, and want nothing more; twice is harmless."""


class Link(Protocol):
    """An encrypted, ordered connection to one device; usable as soon as it is there."""

    peer: DeviceId
    """The device at the other end: it proved that it has the key."""
    remote: str
    """The address of the other end, for showing."""
    version: int
    """Of the protocol, the newest that both speak."""
    dialled: bool
    """Whether this side dialled."""
    trusted: bool
    """Whether the peer was trusted in the handshake; if not, only the channel `PAIR` opens."""
    precedence: tuple[bool, int]
    """Of two links between the same two processes the greater stays; both ends compute the same (`one.py`)."""
    error: LinkError | None
    """Why the link ended, None while it has not."""
    instance: bytes
    """Which start of the peer's process this is, 16 random bytes: another one means that its older links are dead."""

    async def open(self, name: str, *, urgent: bool = False) -> Channel:
        """Open a channel; what is sent on an urgent one goes before what is sent on others. Raises LinkError."""

    async def accepted(self) -> Channel:
        """Return the next channel that the peer opened; raises LinkError when the link ended."""

    async def answers(self, seconds: float) -> bool:
        """Ask the peer for a sign of life; a link that gives none within `seconds` ends, and this returns False."""

    async def close(self, reason: str = "") -> None:
        """Send what was given to send, for a moment at most, say `reason`, and end the link; twice is harmless."""

    def cut(self, reason: str) -> None:
        """End the link at once; nothing more is sent or taken, not even what came already."""

    async def ended(self) -> LinkError:
        """Wait for the end of the link and return why it ended."""

    def when_over(self, call: Callable[[], None]) -> None:
        """Call `call` once the link ended, soon if it has."""


Accept = Callable[[Link], Awaitable[None]]
"""Is given each link that came in, and may keep it; the link ends when this returns or raises."""


class Listener(Protocol):
    """A transport that listens."""

    addresses: tuple[tuple[str, int], ...]
    """Each host and port that is listened on."""

    async def close(self) -> None:
        """Listen no more, and close the links that came in."""


class Transport(Protocol):
    """A way to make links."""

    async def listen(self, accept: Accept) -> Listener:
        """Take links in until closed. Raises RefusedError (of hhd.base.errors) where that cannot be."""

    def recheck(self) -> None:
        """Cut each link of a device that is trusted no more, and of strangers once no code is open; at once."""

    async def dial(self, host: str, port: int, peer: DeviceId | None) -> Link:
        """Return a link to `peer`; None: to whoever is there, trusted or not, for pairing alone.

        Raises LinkError, where something else than the peer answers too.
        """
