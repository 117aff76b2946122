"""One handoff under way in this daemon's memory: where it stands, what is being done for it, who watches it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hhd.node.answers.handoff import Moved
from hhd_protocol import handoff
from hhd_protocol.handoff import Act, Handoff, Record
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, TransferId
from hhd_protocol.objects import Ref

if TYPE_CHECKING:
    from hhd.node.looked import Looked
    from hhd.node.readied import Readied

DEADLINE_SECONDS = 600.0
"""Until a handoff that is not released yet is given up, unless a person said otherwise."""


@dataclass(eq=False)
class Going:
    """One handoff in memory. `busy`: what is being done for it; `watching`: who is told each step."""

    one: Handoff
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    busy: dict[Act, asyncio.Task[None]] = field(default_factory=dict)
    watching: set[asyncio.Queue[Moved]] = field(default_factory=set)
    asker: DeviceId | None = None
    staged: CheckpointId | None = None
    """At the source: up to where the last round brought it."""
    rehearsing: asyncio.Task[None] | None = None
    """At the target: what loads it before it comes."""
    readying: asyncio.Task[None] | None = None
    """At the target: what looks at its folder, and prepares the files of `readying_for` there."""
    readying_for: CheckpointId | None = None
    answers_owed: int = 0
    """At the target: to the source, that it has made ready."""
    loaded: CheckpointId | None = None
    """At the target: what was loaded and compared already."""
    program: tuple[bytes, Ref | None] | None = None
    """The program that a process has loaded, and its memory."""
    looked: Looked | None = None
    """At the target: what was found in the folder that its files are to appear in."""
    unready: Exception | None = None
    """At the target: why its files could not be prepared; None: they were, or nobody tried, or it is done at once."""
    readied: Readied | None = None
    """At the target: its files, prepared where they are to appear."""
    calm: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the session runs on: what else is to be said of it no longer takes time from that."""
    opened: bool = False
    """At the target: its files are here and it was begun, or could not be; whether or not the source has heard."""
    until: float = 0.0
    heard: float = field(default_factory=time.monotonic)
    begun: bool = False
    """At the source: the target said that it runs there, or nobody waits for that any more."""
    looked_after: bool = False
    """Whether it is being looked whether it is late."""
    resting: bool = False
    """At the source: the session was told to rest for this handoff."""
    paused_at: float = 0.0
    pause_ms: int = 0
    notes: tuple[str, ...] = ()
    called: str = ""
    """What its folder is called at the source."""
    size_bytes: int = 0
    """At the target: of all of it, as the source said when it offered it."""
    way: str = ""
    refused: bool = False

    @property
    def peer(self) -> DeviceId:
        return self.one.record.peer

    @property
    def session(self) -> SessionId:
        return self.one.record.session

    @property
    def transfer(self) -> TransferId:
        return self.one.record.transfer


def kept(record: Record, me: DeviceId) -> Going:
    """A handoff as the journal of the device `me` holds it."""
    until = time.monotonic() + (record.deadline_ms / 1000 or DEADLINE_SECONDS)
    return Going(handoff.recovered(record, me=me), until=until)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def why_of(error: Exception) -> str:
    """Why something failed, in a sentence for a record and for who watches."""
    if isinstance(error, OSError):
        return f"The system said: {error.strerror or error}."
    return str(error) or "Something failed."
