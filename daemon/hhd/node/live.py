"""Who is attached to one session, and what each still has to be told.

Nobody waits for anybody: what is told is put into everyone's queue, and whose queue is full loses what is of its moment
only. The transcript is never lost, since it is in the store: where a piece is missing from a queue, who reads it gets
the missing bytes from there. So a queue is small, and a person who comes back after hours has all that counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from hhd.base.errors import RefusedError
from hhd_protocol import live
from hhd_protocol.limits import LIVE_ATTACHED_MAX, LIVE_BY_BYTES_MAX, LIVE_WAITING_BYTES_MAX, LIVE_WAITING_EVENTS_MAX

_OF_THE_MOMENT = (live.Words, live.Notice, live.Said, live.Keys)
_WORDS_SO_FAR_CHARS = 256 * 1024


class Seat:
    """One who is attached: `by` is the name that others hear."""

    def __init__(self, by: str) -> None:
        self.by = by
        self._queue: deque[live.Event] = deque()
        self._bytes = self._missed = 0
        self._behind = self._ended = False
        self._some = asyncio.Event()

    def end(self) -> None:
        """What it was told until now is the last it is told; of the transcript nothing is there any more."""
        self._ended, self._behind = True, False
        self._some.set()

    @property
    def over(self) -> bool:
        """Whether it has been told the last it is told."""
        return self._ended and not self._queue

    def put(self, event: live.Event) -> None:
        """Tell it, when it next takes something."""
        if self._ended:
            return
        size = _size(event)
        if len(self._queue) >= LIVE_WAITING_EVENTS_MAX or self._bytes + size > LIVE_WAITING_BYTES_MAX:
            self._thin()
        self._queue.append(event)
        self._bytes += size
        self._some.set()

    def _thin(self) -> None:
        """Leave out what is of its moment, the transcript, which is in the store, and what a later event says anew."""
        kept: dict[object, live.Event] = {}
        for event in self._queue:
            if isinstance(event, _OF_THE_MOMENT):
                self._missed += 1
            elif isinstance(event, live.Emitted):
                self._behind = True
            elif isinstance(event, live.State | live.Spent):
                kept.pop(type(event), None)
                kept[type(event)] = event
            elif isinstance(event, live.Question | live.Listening):
                kept[event.id, "asked"] = event
            elif isinstance(event, live.Settled) and kept.pop((event.id, "asked"), None) is None:
                kept[event.id, "settled"] = event  # Else it was never seen to be asked.
        settled = [key for key in kept if isinstance(key, tuple) and key[1] == "settled"]
        for key in settled[: -LIVE_WAITING_EVENTS_MAX // 4]:
            del kept[key]
        self._queue = deque(kept.values())
        self._bytes = sum(_size(event) for event in self._queue)

    def begin(self, now: Iterable[live.Event]) -> None:
        """Tell how things are now: what was told of that before is not told any more."""
        rest = [one for one in self._queue if isinstance(one, (*_OF_THE_MOMENT, live.Emitted))]
        self._queue = deque([*now, *rest])
        self._bytes = sum(_size(event) for event in self._queue)
        self._some.set()

    async def next(self) -> live.Event | None:
        """Return what it is to be told next, once there is something; None: transcript that is not in the queue, or it
        was ended meanwhile."""
        while not self._queue and not self._behind and not self._ended:
            self._some.clear()
            await self._some.wait()
        if self._behind or not self._queue:
            self._behind = False
            return None
        if self._missed:
            missed, self._missed = self._missed, 0
            return live.Missed(events=missed)
        event = self._queue.popleft()
        self._bytes -= _size(event)
        return event


class Audience:
    """All who are attached to one session."""

    def __init__(self) -> None:
        self._seats: dict[Seat, None] = {}
        self._number = 0
        self._words: list[str] = []
        self._words_chars = 0

    def __len__(self) -> int:
        return len(self._seats)

    def sit(self, by: str) -> Seat:
        """Attach one more; raises RefusedError where too many are."""
        if len(self._seats) >= LIVE_ATTACHED_MAX:
            raise RefusedError(f"{LIVE_ATTACHED_MAX} terminals are attached to this session already.")
        self._number += 1
        seat = Seat(named(by) or f"terminal {self._number}")
        self._seats[seat] = None
        return seat

    def leave(self, seat: Seat) -> None:
        """It is not attached any more."""
        self._seats.pop(seat, None)

    def end(self) -> None:
        """All have been told the last they are told."""
        for seat in self._seats:
            seat.end()

    def tell(self, event: live.Event, *, but: str | None = None) -> None:
        """Tell all, but those who are named `but`."""
        if isinstance(event, live.Words):
            if self._words_chars < _WORDS_SO_FAR_CHARS:
                self._words.append(event.text)
                self._words_chars += len(event.text)
        elif isinstance(event, live.Emitted | live.State):
            self._words, self._words_chars = [], 0
        for seat in self._seats:
            if seat.by != but:
                seat.put(event)

    @property
    def words_so_far(self) -> str:
        """What the model has said of the reply that comes in now: who attaches hears it from the begin."""
        return "".join(self._words)


def named(by: str) -> str:
    """The name of a terminal as others hear it: bounded, on one line, safe to print."""
    from hhd.base.text import visible

    return visible(by, one_line=True).encode("utf-8", "replace")[:LIVE_BY_BYTES_MAX].decode("utf-8", "ignore")


def _size(event: live.Event) -> int:
    match event:
        case live.Emitted(piece=piece):
            return len(piece) + 64
        case live.Words(text=text) | live.Notice(text=text) | live.Said(text=text):
            return len(text) + 64
        case live.Keys(line=line):
            return len(line) + 64
        case live.Question(pages=pages):
            return sum(len(page) for page in pages) + 64
    return 128
