"""What this device may do in one session, kept at hand while it advances it.

The doors themselves are `hhd_protocol.holding`'s, asked anew at every step. Over all statements of a long session that
would cost more with each step, so what is asked is folded: the line made under the token that this device holds is
one checkpoint, with the effects that are open on it. Nothing is lost by it while nobody else adds a statement; if
somebody did, everything is read and judged again, before the step in hand is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from hhd.identity.key import Identity
from hhd.node.lineages import lineage_of
from hhd.node.members import members
from hhd.store.statements import STATEMENTS, TOMBSTONE
from hhd.store.store import CHECKPOINTS, Store
from hhd_protocol import lineage
from hhd_protocol.holding import Around, Known, Leg, Part, Refusal, Why
from hhd_protocol.ids import EffectId, SessionId, Sha256, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Checkpoint, EffectKind, Fact, Intent, Progress, Receipt, Record, Revocation

_OVER = (Progress.ANSWERED, Progress.SETTLED)
_NOT_YET = StatementId(bytes(32))
"""Stands for a checkpoint that is about to be signed, while it is asked what may be done after it."""


def known(store: Store, me: Identity, session: SessionId, kinds: Mapping[EffectId, EffectKind] | None = None) -> Known:
    """Return every statement of `session` that is here, the signature of each found to hold or not."""
    return lineage_of(store, session, members(store, me), kinds=kinds).known


class Doors:
    """The part of this device in `session`; used within a transaction, by who holds the session's lock."""

    def __init__(self, store: Store, me: Identity, session: SessionId, kinds: Mapping[EffectId, EffectKind]) -> None:
        self._store, self._me, self._session, self._kinds = store, me, session, dict(kinds)
        self.load(None)

    def load(self, leg: Leg | None) -> None:
        """Read and judge everything again; `leg`: what is advanced here, None to begin where the owner's line ends."""
        whole = known(self._store, self._me, self._session, self._kinds)
        tip = self._store.statements.tip(self._session, self._me.id)
        around = Around(woke_ms=_STARTED_MS, attached=True)
        part = Part(me=self._me.id, known=whole, tip=None if tip is None else tip.id, around=around, leg=leg)
        part = part.loaded() if leg is None else part
        before = None if part.after is None else self._store.statements.get(self._session, part.after)
        self.seq = 0 if before is None else before.body.seq + 1
        self.uncertain = whole.view.uncertain
        self._elsewhere = _begun_elsewhere(part)
        self.part = part if part.may_append() is not None else _folded(part)
        self._revision = self._counted()

    def look(self) -> None:
        """Take in what others have added meanwhile."""
        if self._counted() != self._revision:
            self.load(self.part.leg)

    def may_append(self) -> Refusal | None:
        """Door 1."""
        return self.part.may_append()

    def may_start(
        self, effect: EffectId, kind: EffectKind, request: bytes, effects: Mapping[EffectId, Progress]
    ) -> Refusal | None:
        """Door 2, once a checkpoint that says `effects` is written."""
        self._kinds = {effect: kind}
        leg, view = self.part.leg, self.part.known.view
        assert leg is not None and view.token is not None
        if effect in self._elsewhere and effects.get(effect) is not Progress.RERUN and kind is EffectKind.TOOL:
            return Refusal(why=Why.UNCERTAIN)
        to_come = Checkpoint(
            id=_NOT_YET,
            by=self._me.id,
            after=self.part.after,
            signature_good=True,
            token=view.token.id,
            parents=() if leg.head is None else (leg.head,),
            effects=effects,
        )
        part = self.part.signed(to_come)
        part = replace(part, known=replace(part.known, kinds=self._kinds))
        return part.may_start(effect, Sha256(sha256(request).digest()), now_ms())

    def signed(self, signed: Signed) -> None:
        """This device signed a statement, and it is written."""
        fact = lineage.fact(signed, True)
        part = self.part.signed(fact)
        if isinstance(fact, Checkpoint) and part.leg is not None and part.leg.running in fact.effects:
            part = replace(part, leg=replace(part.leg, running=None))  # It has ended, or did not begin.
        self.part = part if part.may_append() is not None else _folded(part)
        self.seq = signed.body.seq + 1
        self._revision = self._counted()

    def _counted(self) -> tuple[object, ...]:
        """Something that changes with every statement added to the session."""
        rows, session = self._store.rows, self._session
        ledger = rows.ledger(session)
        found: list[object] = [rows.get_either(TOMBSTONE, b"", session)]
        for table in (CHECKPOINTS, STATEMENTS):
            blocks = ledger.get(table, 0)
            found += [blocks, rows.at(table, session, blocks - 1) if blocks else None]
        return tuple(found)


def _begun_elsewhere(part: Part) -> frozenset[EffectId]:
    """Effects that some statement not under this device's token says were begun, wherever the line is by now."""
    token = None if part.known.view.token is None else part.known.view.token.id
    return frozenset(
        s.effect for s in part.known.statements.values() if isinstance(s, Intent | Receipt) and s.token != token
    )


def _folded(part: Part) -> Part:
    """The same part with its line as one checkpoint; only for a part that may append."""
    view, statements = part.known.view, part.known.statements
    assert view.token is not None
    record = statements[view.token.id]
    assert isinstance(record, Record)
    kept: dict[StatementId, Fact] = {id: s for id, s in statements.items() if isinstance(s, Record | Revocation)}
    line: tuple[StatementId, ...] = ()
    open_effects = {e: said for e, said in part.known.progress(view.main).items() if said not in _OVER}
    for id in dict.fromkeys((record.head, view.main)):
        checkpoint = None if id is None else statements.get(id)
        if isinstance(checkpoint, Checkpoint):
            effects = open_effects if checkpoint.id == view.main else {}
            kept[checkpoint.id] = replace(checkpoint, parents=line, effects=effects)
            line = (checkpoint.id,)
    own = _own_line(part)
    for id in own:  # What came after the line's last checkpoint: an intent, a receipt.
        if isinstance(statements[id], Checkpoint):
            break
        kept[id] = statements[id]
    before: StatementId | None = None
    for id in reversed([id for id in own if id in kept]):
        kept[id] = replace(kept[id], after=before)
        before = id
    return replace(part, known=replace(part.known, statements=kept))


def _own_line(part: Part) -> list[StatementId]:
    """The statements that this store signed, the last one first."""
    found: list[StatementId] = []
    at = part.tip
    while at is not None and (statement := part.known.statements.get(at)) is not None:
        found.append(at)
        at = statement.after
    return found


def now_ms() -> int:
    """Milliseconds of the clock that counts sleep."""
    clock = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return time.clock_gettime_ns(clock) // 1_000_000


_STARTED_MS = now_ms()
