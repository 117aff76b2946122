"""The order that every client accepts: each reply followed by the results of its calls, nothing between."""

from __future__ import annotations

from collections import deque

import msgspec

from hhd.native.convert.steps import Spoken
from hhd_protocol.transcript import At, Call, Message, Outcome, Result, Text, Thinking

HELD_MAX = 10_000
"""Items held while a call waits for its result: natively a few. Past it the call is closed as unanswered."""


_OF_A_REPLY = (Text, Thinking, Call)


class Orderer:
    """Takes items in the order of the source, and gives them back in the order of a target.

    What a person or the assistant said between a call and its result comes after the result: no client accepts it
    there (`moved` counts such). Replies are numbered anew: `reply` is `prefix` and a number.
    `strays` counts results of calls that were never made or were answered before; they are not given back.
    """

    def __init__(self, prefix: str, *, calls_last: bool) -> None:
        """`calls_last`: the target takes nothing of a reply after its calls but more calls."""
        self._prefix = prefix
        self._joins = (Call,) if calls_last else _OF_A_REPLY
        self._open: dict[str, Result | None] = {}
        self._answered = 0
        self._held: deque[Spoken] = deque()
        self._source_reply: str | None = None
        self._in_reply = False
        self._replies = 0
        self._at = At(0, 0)
        self.moved = 0
        self.strays = 0

    def feed(self, item: Spoken) -> list[Spoken]:
        """The items that can be written now that `item` is known."""
        if not self._open and type(item) is Message:
            self._in_reply = False
            return [item]
        out: list[Spoken] = []
        self._work(deque((item,)), out)
        return out

    def close(self) -> list[Spoken]:
        """What is left at the end: open calls are closed as unanswered."""
        out: list[Spoken] = []
        while self._open:
            self._work(self._close_group(out), out)
        self._in_reply = False
        return out

    def _work(self, queue: deque[Spoken], out: list[Spoken]) -> None:
        while queue:
            item = queue.popleft()
            kind = type(item)
            if not self._open:
                self._write(item, out)
            elif kind is Result and self._open.get(item.call, item) is None:  # type: ignore[union-attr]
                self._open[item.call] = item  # type: ignore[union-attr,assignment]
                self._answered += 1
                if self._answered == len(self._open):
                    queue.extendleft(reversed(self._close_group(out)))
            elif kind in self._joins and self._answered == 0 and self._continues(item):
                self._write(item, out)
            else:
                self._held.append(item)
                if len(self._held) > HELD_MAX:
                    queue.extendleft(reversed(self._close_group(out)))

    def _write(self, item: Spoken, out: list[Spoken]) -> None:
        if isinstance(item, Text | Thinking | Call):
            if not (self._in_reply and self._continues(item)):
                self._replies += 1
                self._source_reply = item.reply
            self._in_reply = True
            if isinstance(item, Call):
                self._open[item.id] = None
                self._at = item.at
            out.append(msgspec.structs.replace(item, reply=f"{self._prefix}{self._replies}"))
        elif isinstance(item, Result):
            self.strays += 1
        else:
            self._in_reply = False
            out.append(item)

    def _continues(self, item: Spoken) -> bool:
        """Whether the item belongs to the reply that is being written.

        Where the source does not number its replies, calls in a row are one parallel group, and a text opens the
        reply whose calls follow it.
        """
        assert isinstance(item, Text | Thinking | Call)
        reply = item.reply
        if reply is not None or self._source_reply is not None:
            return reply == self._source_reply
        return type(item) is Call

    def _close_group(self, out: list[Spoken]) -> deque[Spoken]:
        """Write the results of the open calls; return what was held for them."""
        for call, found in self._open.items():
            out.append(found or Result(at=self._at, call=call, outcome=Outcome.MISSING))
        self._open, self._answered, self._in_reply = {}, 0, False
        held, self._held = self._held, deque()
        self.moved += len(held)
        return held
