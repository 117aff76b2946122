"""The log of a session: every statement that is here of it, each with its position on this device.

Statements are listed in the store in the order they came, in three lists: checkpoints with content, tombstones, all
others. A position counts along each, so whoever names one is told exactly what came after it, here, however late it
was signed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hhd.base.errors import UsageError
from hhd.node.answers.logged import Logged
from hhd.node.devices import Devices
from hhd.node.lineages import Lineage
from hhd.node.one_hand import fits, heads_among, is_of_one_hand
from hhd.store.errors import MissingError
from hhd.store.store import Store
from hhd_protocol.bodies import (
    CheckpointBody,
    CreateBody,
    IntentBody,
    ReceiptBody,
    ReleaseBody,
    TakeoverBody,
    TombstoneBody,
)
from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Role

KINDS = {
    CreateBody: "create",
    ReleaseBody: "release",
    TakeoverBody: "takeover",
    CheckpointBody: "checkpoint",
    IntentBody: "intent",
    ReceiptBody: "receipt",
    TombstoneBody: "tombstone",
}

NOWHERE = StatementId(b"")
"""In the list of others, the place of a checkpoint whose content came later: it is told from its own list."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """How much of a session's lists was seen: its checkpoints with content, its tombstones, its other statements."""

    checkpoints: int = 0
    others: int = 0
    tombstones: int = 0

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `text` says; raises UsageError."""
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
            raise UsageError("A position is three numbers with dots between, as 'hhd log' prints it.")
        checkpoints, others, tombstones = map(int, parts)
        return cls(checkpoints=checkpoints, others=others, tombstones=tombstones)

    def __str__(self) -> str:
        return f"{self.checkpoints}.{self.others}.{self.tombstones}"


_Lists = tuple[list[StatementId], list[StatementId], list[StatementId]]


def _end(lists: _Lists) -> Position:
    return Position(checkpoints=len(lists[0]), others=len(lists[1]), tombstones=len(lists[2]))


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What statements mean: those that do not count, by the word for it; the heads; the number of a token."""

    standing: Mapping[str, Collection[StatementId]]
    heads: Collection[StatementId]
    number: Callable[[StatementId], int | None]

    @classmethod
    def of(cls, lineage: Lineage) -> _Judged:
        """All of a session's."""
        view = lineage.view
        standing = {"held": view.held, "refused": view.refused, "sealed": view.sealed}
        return cls(standing=standing, heads=view.heads, number=lineage.number)


@dataclass(frozen=True, kw_only=True)
class Logbook:
    """Tells the log of one session; `read` gives its lineage as it is now, `devices` who is who."""

    store: Store
    session: SessionId
    read: Callable[[], Lineage]
    devices: Devices

    def since(self, position: Position) -> tuple[list[Logged], Position]:
        """Return what came after `position`, and the position behind it."""
        with self.store.snapshot():
            lists = self._lists()
            end = _end(lists)
            if end == position:
                return [], end
            lineage = self.read()
        signed = {one.id: one for one in lineage.signed}
        start = (position.checkpoints, position.others, position.tombstones)
        return self._told(lists, start, signed, _Judged.of(lineage)), end

    def newest(self, count: int) -> tuple[list[Logged], Position]:
        """Return the `count` statements that came last, and the position behind them.

        Of a session that only this device wrote, no others are read.
        """
        with self.store.snapshot():
            lists = self._lists()
            start = tuple(max(0, len(ids) - count) for ids in lists)
            signed = self._of_one_hand({id for ids, seen in zip(lists, start, strict=True) for id in ids[seen:]})
        if signed is None:
            found, end = self.since(Position())
            return found[-count:] if count else [], end
        judged = _Judged(standing={}, heads=heads_among(signed.values()), number=lambda _: 1)
        return self._told(lists, start, signed, judged, count), _end(lists)

    def _of_one_hand(self, ids: Iterable[StatementId]) -> dict[StatementId, Signed] | None:
        """The statements `ids`, if what they mean follows from them alone."""
        mine = self.devices.members.get(self.store.device)
        if mine is None or mine.role is not Role.FULL or not is_of_one_hand(self.store, self.session):
            return None
        found = [self.store.statements.get(self.session, id) for id in ids]
        if not all(one is not None and fits(one, self.session, self.store) for one in found):
            return None
        return {one.id: one for one in found if one is not None}

    def _lists(self) -> _Lists:
        return (
            [StatementId(one) for one in self.store.checkpoint_ids(self.session)],
            self.store.statements.listed(self.session),
            self.store.statements.tombstone_ids(self.session),
        )

    def _told(
        self,
        lists: _Lists,
        start: tuple[int, ...],
        signed: Mapping[StatementId, Signed],
        judged: _Judged,
        count: int | None = None,
    ) -> list[Logged]:
        """What came behind `start`, in order; the last `count` of it."""
        checkpoints, others, tombstones = lists
        with_content = set(checkpoints)
        others = [NOWHERE if id in with_content else id for id in others]
        queues = [
            [(place, signed[id]) for place, id in enumerate(ids[seen:], seen + 1) if id in signed]
            for ids, seen in zip((checkpoints, others, tombstones), start, strict=True)
        ]
        merged = list(_merged(queues, start))
        return [
            self._logged(one, at, judged)
            for one, at in (merged if count is None else merged[max(0, len(merged) - count) :])
        ]

    def follow(self, position: Position, wait: Callable[[], bool]) -> Iterator[Logged]:
        """Yield what came after `position`, then what comes, until `wait`, which waits a moment, returns False."""
        while True:
            fresh, position = self.since(position)
            yield from fresh
            if not wait():
                return

    def _logged(self, one: Signed, at: Position, judged: _Judged) -> Logged:
        body = one.body
        standing = next((name for name, ids in judged.standing.items() if one.id in ids), "counts")
        return Logged(
            position=str(at),
            id=one.id.hex(),
            kind=KINDS[type(body)],
            device=self.devices.shown(body.by),
            number=body.seq,
            at_ms=body.at_ms,
            token=_token(one, judged),
            turn=isinstance(body, CheckpointBody) and body.turn,
            effects=_effects(one),
            standing=standing,
            thinned=isinstance(body, CheckpointBody) and self._thinned(CheckpointId(one.id)),
            head=one.id in judged.heads,
            note=self._note(one),
        )

    def _thinned(self, checkpoint: CheckpointId) -> bool:
        """Whether the content is gone, or never was here."""
        try:
            return self.store.checkpoint(checkpoint).thinned
        except MissingError:
            return True

    def _note(self, one: Signed) -> str:
        match one.body:
            case ReleaseBody(to=to):
                shown = self.devices.shown(to)
                return f"to {shown.name or shown.id}"
            case TakeoverBody(reason=reason):
                return reason
            case CreateBody(origin=origin) if origin is not None:
                return "a fork"
            case IntentBody(op=op):
                return op
            case CheckpointBody(journal=journal) if journal is not None:
                return "closing"
            case TombstoneBody(heads=heads):
                return f"removed with {len(heads)} heads"
            case _:
                return ""


def _token(one: Signed, judged: _Judged) -> int | None:
    match one.body:
        case CreateBody():
            return 1
        case ReleaseBody(number=number) | TakeoverBody(number=number) | TombstoneBody(number=number):
            return number
        case CheckpointBody(token=token) | IntentBody(token=token) | ReceiptBody(token=token):
            return judged.number(token)


def _effects(one: Signed) -> tuple[tuple[int, str], ...]:
    match one.body:
        case CheckpointBody(effects=effects, journal=journal):
            said = {**effects, **(journal or {})}
            return tuple((position, progress.value) for position, progress in sorted(said.items()))
        case IntentBody(position=position):
            return ((position, "about to run"),)
        case ReceiptBody(position=position):
            return ((position, "answered"),)
        case _:
            return ()


def _merged(queues: list[list[tuple[int, Signed]]], start: tuple[int, ...]) -> Iterator[tuple[Signed, Position]]:
    """Each statement with the position behind it: the order of each queue is kept.

    Of their first ones, that goes first which stands on none of the others; where that leaves a choice, by the clocks
    that they name.
    """
    seen, at = list(start), [0] * len(queues)
    told: set[StatementId] = set()
    here = {one.id for queue in queues for _, one in queue}
    while open_ := [number for number, queue in enumerate(queues) if at[number] < len(queue)]:
        firsts = [(number, queues[number][at[number]][1]) for number in open_]
        free = [pair for pair in firsts if not any(id in here and id not in told for id in _named(pair[1]))]
        number, one = min(free or firsts, key=lambda pair: (pair[1].body.at_ms, -pair[0]))
        seen[number] = queues[number][at[number]][0]
        at[number] += 1
        told.add(one.id)
        yield one, Position(checkpoints=seen[0], others=seen[1], tombstones=seen[2])


def _named(one: Signed) -> list[StatementId | None]:
    body = one.body
    named: list[StatementId | None] = [body.after]
    if isinstance(body, CheckpointBody):
        named += [body.token, *body.parents]
    elif isinstance(body, ReleaseBody | TakeoverBody):
        named += [body.prev, body.head]
    elif isinstance(body, IntentBody | ReceiptBody):
        named.append(body.token)
    return named
