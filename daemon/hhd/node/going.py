"""One session as the daemon has it while it runs here, or somebody is attached to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hhd.base.errors import Exit
from hhd.effects.approvals import Grant
from hhd.node import pair
from hhd.node.forks import Worker
from hhd.node.live import Audience
from hhd_protocol import live
from hhd_protocol.ids import SessionId

WORDS_WAITING_MAX = 256
"""Words said to a session that it has not heard: it hears all of them at its next step."""
WORDS_WAITING_CHARS_MAX = 4 * 1024 * 1024
"""Of all of them: they are kept in memory, and other devices say some."""


@dataclass(frozen=True, kw_only=True)
class Hand:
    """What a terminal handed over for a session: in memory only, until the daemon ends.

    `environment`: of its commands. `model`: where the model is, and the key for it. None: what the daemon has.
    """

    environment: Mapping[str, str] | None = None
    model: Mapping[str, str] | None = None


@dataclass(eq=False)
class Word:
    """Something a person said, not in the session yet; `heard` is done once it is, durably."""

    text: str
    heard: asyncio.Future[None]


@dataclass(eq=False)
class Going:
    """One session: `worker` is its process, None where it has none; `turn` is held by who starts or ends one."""

    session: SessionId
    audience: Audience = field(default_factory=Audience)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    rested: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    quiet: asyncio.Event = field(default_factory=lambda: _set(asyncio.Event()))
    """Its process has said its last word, and let go of the session."""
    looked: asyncio.Future[None] | None = None
    """Done once its process has captured the folder."""
    afterwards: live.State | None = None
    """What is to be told once it rests."""
    hand: Hand = field(default_factory=Hand)
    folder: Path | None = None
    chosen_model: str | None = None
    worker: Worker | None = None
    opened: asyncio.Future[pair.Opened] | None = None
    over: pair.Over | None = None
    cause: str = ""
    """Why its process was ended by the daemon."""
    pausing: bool = False
    """A person wants it to pause."""
    by_itself: bool = False
    """Nobody waited for its process to begin."""
    starts: int = 0
    answers: int = 0
    """How often another device had answered when it was begun last."""
    state: live.State | None = None
    """None: it has not run here since the daemon began; the list of sessions knows."""
    spent: live.Spent | None = None
    ask: live.Question | live.Listening | None = None
    """What it asks a person, its process waiting for it or ended."""
    settled_by: dict[str, str] = field(default_factory=dict)
    """Who gave the answer that counted, of the last questions."""
    carried: pair.Answer | None = None
    """The answer that its process was begun with, until it has made a step."""
    answer: pair.Answer | None = None
    """An answer of which it is not known yet whether the process heard it."""
    unheard: deque[Word] = field(default_factory=deque)
    grants: list[Grant] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether nothing of it has to be kept."""
        if self.worker is not None or self.turn.locked() or len(self.audience) or self.unheard:
            return False
        soon = self.state is not None and self.state.name == "running"  # It is about to be started.
        if self.answer is not None and self.state is not None and self.state.name == "waiting":
            return False  # It is begun again with that.
        return not soon and self.ask is None and self.hand == Hand()

    @property
    def rests(self) -> bool:
        """Whether it has no process here, nor is about to have one: then the store says how it is."""
        begins = self.state is not None and self.state.name == "running" and not self.state.status
        return self.worker is None and not begins

    def found(self, state: live.State, ask: live.Question | live.Listening | None) -> None:
        """Take what the store says of it while it rests; how its process ended is known better here."""
        known = self.state
        ended = known is not None and known.name == "ended" and state.name in ("ended", "paused", "waiting")
        if known is None or (known.name != state.name and not ended):
            self.state = state
        if state.name != "waiting":
            self.ask = None
        elif self.ask is None:
            self.ask = ask

    def tell(self, event: live.Event) -> None:
        """Tell who is attached, and note how things are."""
        match event:
            case live.State():
                self.state = event
            case live.Spent():
                self.spent = event
            case live.Question() | live.Listening():
                self.ask = event
        self.audience.tell(event)

    def removed(self, sentence: str) -> None:
        """It is no session of this device any more: who is attached hears that, and nothing after it."""
        self.settle("", "")
        self.tell(live.State(name="ended", sentence=sentence, ways=("hhd ls",), effect="", status=int(Exit.REFUSED)))
        self.audience.end()
        self.hand, self.answer, self.carried = Hand(), None, None
        self.unheard.clear()
        self.grants.clear()

    def settle(self, by: str, word: str) -> None:
        """What was asked needs no answer any more."""
        if self.ask is not None:
            self.settled_by[self.ask.id] = by
            while len(self.settled_by) > 16:
                del self.settled_by[next(iter(self.settled_by))]
            self.audience.tell(live.Settled(id=self.ask.id, by=by, word=word))
            self.ask = None

    def now(self) -> list[live.Event]:
        """How things are, for one who attaches."""
        words = self.audience.words_so_far
        events = [self.spent, self.ask, self.state, live.Words(text=words) if words else None]
        return [event for event in events if event is not None]

    def hear(self, count: int) -> None:
        """So many words are in the session."""
        for _ in range(min(count, len(self.unheard))):
            word = self.unheard.popleft()
            if not word.heard.done():
                word.heard.set_result(None)


def _set(event: asyncio.Event) -> asyncio.Event:
    event.set()
    return event
