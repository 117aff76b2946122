"""Statements of one peer that waited together, taken in one transaction: one durable write for all of them.

A session at work makes a checkpoint every few milliseconds, and a disk may take a hundred for one durable write. What
came meanwhile is taken together: each message by the same checks as alone and in order, in a part of the transaction
that is undone alone where the message is wrong. Peers are told of anything only once all of it is durable.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hhd.base.errors import UserError
from hhd.node.sync.arrivals import Arrivals
from hhd.node.sync.held import Held
from hhd.node.sync.intake import NoKeys, Taken
from hhd.node.sync.statements import Fresh, StatementsIn
from hhd.node.sync.talk import Talk
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, ObjectName, SessionId
from hhd_protocol.objects import object_name
from hhd_protocol.sync.events import Arrived
from hhd_protocol.sync.messages import Rebuild, Statements

log = logging.getLogger(__name__)

TOGETHER_MS = 100
"""A transaction takes no more once it lasts so long: sessions of this device wait to write theirs meanwhile."""


@dataclass(kw_only=True)
class _Batch:
    """What one transaction took; `taken` and `own`, what others on this device added before, by session."""

    taken: dict[SessionId, list[Taken]] = field(default_factory=dict)
    own: dict[SessionId, list[Fresh]] = field(default_factory=dict)
    brought: list[ObjectName] = field(default_factory=list)
    bytes_of: Counter[SessionId] = field(default_factory=Counter)
    without_keys: list[Statements] = field(default_factory=list)
    not_made: list[Rebuild] = field(default_factory=list)


class Together:
    """Takes statements, and recipes that go before them, into `held`; `wrong` is told what costs a peer its link."""

    def __init__(
        self,
        held: Held,
        talk: Talk,
        statements: StatementsIn,
        arrivals: Arrivals,
        wrong: Callable[[DeviceId, UserError | FormatError], None],
    ) -> None:
        self._held, self._talk, self._statements, self._arrivals = held, talk, statements, arrivals
        self._wrong = wrong
        self._waiting: deque[Statements | Rebuild] = deque()

    def add(self, message: Statements | Rebuild) -> None:
        """A message came; `settle` is called before anything else is done, and it is bounded what comes until then."""
        self._waiting.append(message)

    def forget(self) -> None:
        """Drop what waits, if anything does."""
        self._waiting.clear()

    def settle(self, peer: DeviceId) -> None:
        """Take all that came from `peer`, and tell of it; one that is wrong, or that the store cannot keep, is left."""
        while self._waiting:
            if peer not in self._talk.machine.peers:  # What was wrong cost it the link.
                self._waiting.clear()
                return
            batch = _Batch()
            try:
                wrong = self._take_some(peer, batch)
            except UserError as error:  # Nothing is kept; a new round finds what is missing.
                self._waiting.clear()
                self._statements.not_told(batch.own)
                self._wrong(peer, error)
                return
            self._tell(peer, batch)
            if wrong is not None:
                self._wrong(peer, wrong)

    def _take_some(self, peer: DeviceId, batch: _Batch) -> UserError | FormatError | None:
        """Take messages in one transaction, up to one that is wrong; return what is wrong with that."""
        held, store, waiting = self._held, self._held.store, self._waiting
        try:
            while waiting and isinstance(waiting[0], Rebuild):  # Nobody else needs to wait for this.
                self._take_one(peer, batch)
        except FormatError as error:
            return error
        if not waiting:
            return None
        with held.putting_off(0), held.intake.together():
            until = self._talk.now_ms() + TOGETHER_MS  # From here on: others may have written for longer than that.
            while waiting:
                try:
                    with store.part():
                        self._take_one(peer, batch)
                except NoKeys:
                    pass
                except (UserError, FormatError) as error:
                    if store.database.is_lost:
                        raise
                    return error
                if self._talk.now_ms() >= until:
                    break
        return None

    def _take_one(self, peer: DeviceId, batch: _Batch) -> None:
        message = self._waiting.popleft()
        if isinstance(message, Rebuild):
            if not self._arrivals.make(message):
                batch.not_made.append(message)
            return
        message = self._arrivals.with_made(message)
        self._statements.insist_on_objects(message)
        session = message.session

        def catch_up() -> None:
            if session not in batch.own:  # What came in this transaction is nobody else's.
                self._statements.catch_up(session, batch.own.setdefault(session, []))

        try:
            taken = self._held.intake.statements(peer, message, catch_up)
        except NoKeys:
            batch.without_keys.append(message)
            raise
        batch.taken.setdefault(session, []).append(taken)
        batch.brought += map(object_name, message.objects)
        batch.bytes_of[session] += sum(map(len, message.objects))

    def _tell(self, peer: DeviceId, batch: _Batch) -> None:
        """All of it is durable: tell peers, and ask for what it lacks."""
        for session, size in batch.bytes_of.items():
            self._arrivals.weigh(session, size)
        for name in batch.brought:
            self._talk.feed(Arrived(name=name, source=peer))
        for session, taken in batch.taken.items():
            own = batch.own.pop(session, [])
            try:
                for one in joined(taken):
                    self._statements.took(one, peer, own)
                    own = []
            except UserError as error:  # Of this session; others are told of as ever.
                self._statements.not_told({session: own}, always=True)
                self._wrong(peer, error)
        self._statements.not_told(batch.own)  # Found for a message that was wrong.
        for message in batch.without_keys:
            self._statements.wait_for_keys(peer, message)
        for recipe in batch.not_made:
            self._arrivals.not_made(peer, recipe)
        self._arrivals.sweep()


def joined(taken: list[Taken]) -> list[Taken]:
    """Return what one session's messages came to, as if they had been one; a removal stands alone."""
    found: list[Taken] = []
    for one in taken:
        before = found[-1] if found else None
        if before is None or any(each.removed or each.outlived for each in (before, one)):
            found.append(one)
        else:
            found[-1] = before.then(one)
    return found
