"""The shape of a Codex thread, learnt in the first pass: turns, rollbacks, compactions, and what the events say.

A *place* is the number of a line, counted from 1 through all segments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import UNSET

from hhd.native.codex_files import Segment, Thread
from hhd.native.codex_records import Line, Payload, said, standins, told
from hhd.native.reading import Progress, collect
from hhd_protocol.transcript import Reason

_PENDING_MAX = 16


class Shape:
    """What the first pass finds."""

    def __init__(self, thread: Thread, *, tail: bool, progress: Progress) -> None:
        """Read all of `thread`."""
        self._thread, self._segments = thread, thread.segments
        self.dead: list[tuple[int, int]] = []
        """Stretches that were rolled back: their first places and last ones."""
        self.spoken: set[int] = set()
        """Places of user items that the person wrote."""
        self.exits: dict[int, int] = {}
        """By the hash of a call's id: the exit status of its command."""
        self.cwds: list[str] = []
        self.models: list[str] = []
        self.title: str | None = None
        self.times: list[str | None] = [None, None]
        self._turns: list[int] = []
        self._compactions: list[tuple[int, bool]] = []
        self._no_ordinal = False
        self._pending_items: list[tuple[int, str]] = []
        self._pending_events: list[str] = []
        self._index(progress)
        self._resolve(tail)

    def _index(self, progress: Progress) -> None:
        place = 0
        for segment in self._segments:
            segment.begin = place
            for block, raw in segment.source.blocks():
                segment.blocks.append(block)
                self._note(segment, place + block.first_line, segment.lines.decode(block, raw))
                progress(len(raw))
            last = segment.blocks[-1] if segment.blocks else None
            place += last.first_line + last.lines - 1 if last else 0
        self.total = place

    def _note(self, segment: Segment, place: int, found: Iterable[Line | Reason]) -> None:
        own = segment is self._segments[-1]
        for record in found:
            if isinstance(record, Reason):
                if record is Reason.BAD_TEXT:
                    self._thread.refused = self._thread.refused or "a line holds bytes that are no UTF-8"
                place += 1
                continue
            if record.timestamp is None:
                place += 1
                continue
            if record.ordinal is None:
                self._no_ordinal = self._no_ordinal or own
            elif segment.ordinal_end is not None and record.ordinal >= segment.ordinal_end:
                place += 1
                continue
            payload = record.payload
            if self.times[0] is None:
                self.times[0] = record.timestamp
            self.times[1] = record.timestamp
            if payload is not None:
                kind = record.type
                if kind == "response_item":
                    if payload.type == "message" and payload.role == "user":
                        self._user_item(payload, place)
                    elif payload.role not in ("developer", "system"):
                        self._pending_items, self._pending_events = [], []
                elif kind == "event_msg":
                    self._event(payload, place)
                elif kind == "compacted":
                    self._compacted(payload, place)
                elif kind == "turn_context":
                    collect(self.cwds, payload.cwd)
                    collect(self.models, payload.model)
                elif kind == "session_meta":
                    collect(self.cwds, payload.cwd)
            place += 1

    def _compacted(self, payload: Payload, place: int) -> None:
        """A compaction counts even if it is rolled back later; what it puts in are turns that can be rolled back."""
        if payload.replacement_history is UNSET:
            self._turns.append(place)
            self._compactions.append((place, False))
        else:
            users = sum(1 for item in standins(payload.replacement_history) if item is not None and item.role == "user")
            self._turns = [place] * users
            self._compactions.append((place, True))

    def _user_item(self, payload: Payload, place: int) -> None:
        text = said(payload)
        if text in self._pending_events:
            self._pending_events = []
            self.spoken.add(place)
        else:
            self._pending_items = [*self._pending_items[-_PENDING_MAX:], (place, text)]

    def _event(self, payload: Payload, place: int) -> None:
        text = told(payload)
        if text is not None:
            start = place
            for item, own in reversed(self._pending_items):
                if own == text:
                    self.spoken.add(item)
                    start = item
                    break
            else:
                self._pending_events = [*self._pending_events[-_PENDING_MAX:], text]
            self._pending_items = []
            self._turns.append(start)
        elif payload.type == "thread_rolled_back":
            for _ in range(min(payload.num_turns or 0, len(self._turns))):
                start = self._turns.pop()
                if self.dead and self.dead[-1][0] >= start:
                    self.dead.pop()
                self.dead.append((start, place))
        elif payload.type == "thread_name_updated":
            self.title = payload.thread_name or self.title
        elif payload.exit_code is not None and payload.call_id is not None:
            self.exits[hash(payload.call_id)] = payload.exit_code
        elif payload.item is not None and payload.item.exit_code is not None and payload.item.id is not None:
            self.exits[hash(payload.item.id)] = payload.item.exit_code

    def _resolve(self, tail: bool) -> None:
        self._dead_starts = [start for start, _ in self.dead]
        self.last_compaction = self._compactions[-1][0] if self._compactions else 0
        self.floor = max((place for place, full in self._compactions if full), default=0)
        own = self._segments[-1].meta
        if self._no_ordinal and own is not None and own.history_mode == "paginated" and not tail:
            self._thread.refused = self._thread.refused or "it says that it is paginated, but a line has no ordinal"

    def is_dead(self, place: int) -> bool:
        """Whether what stands at `place` was rolled back."""
        number = bisect_right(self._dead_starts, place) - 1
        return number >= 0 and place <= self.dead[number][1]
