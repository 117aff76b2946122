"""What this device may do in one session, kept at hand while it advances it.

The doors themselves are `hhd_protocol.holding`'s, asked anew at every step, of all statements: those that this process
signs are worked in as they come. If anybody else added one, everything is read and judged again, before the step in
hand is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from hhd.identity.key import Identity
from hhd.node import around, denials
from hhd.node.around import now_ms as now_ms
from hhd.node.lineages import lineage_of, revision
from hhd.node.members import members
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.holding import Known, Leg, Part, Refusal
from hhd_protocol.ids import EffectId, SessionId, Sha256
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Checkpoint, EffectKind, Progress


def known(store: Store, me: Identity, session: SessionId, kinds: Mapping[EffectId, EffectKind] | None = None) -> Known:
    """Return every statement of `session` that is here, the signature of each found to hold or not."""
    return lineage_of(store, session, members(store, me), kinds=kinds).known


class Doors:
    """The part of this device in `session`; used within a transaction, by who holds the session's lock."""

    def __init__(self, store: Store, me: Identity, session: SessionId) -> None:
        self._store, self._me, self._session = store, me, session
        self.kinds: dict[EffectId, EffectKind] = {}
        """Of effects that may be done twice, as far as it is known; all others may not."""
        self.load(None)

    def load(self, leg: Leg | None) -> None:
        """Read and judge everything again; `leg`: what is advanced here, None to begin where the owner's line ends."""
        whole = known(self._store, self._me, self._session, self.kinds)
        tip = self._store.statements.tip(self._session, self._me.id)
        checkpoints = {id for id, fact in whole.statements.items() if isinstance(fact, Checkpoint)}
        part = Part(
            me=self._me.id,
            known=whole,
            tip=None if tip is None else tip.id,
            around=around.around(self._session),
            acknowledged_by=self._store.arrived.knowing(self._session),
            denied=denials.denied(self._store, self._session),
            leg=leg,
            bare=frozenset(checkpoints.difference(self._store.checkpoint_ids(self._session))),
        )
        # Where nothing may be appended nothing is loaded: the line's end may be one whose content is not here.
        self.part = part.loaded() if leg is None and part.may_append() is None else part
        before = None if part.after is None else self._store.statements.get(self._session, part.after)
        before = before or tip  # The chain of a device that was added again begins anew; its numbers go on.
        self.seq = 0 if before is None else before.body.seq + 1
        self._revision = revision(self._store, self._session)

    def look(self) -> None:
        """Take in what others have added meanwhile, and how things stand now."""
        if revision(self._store, self._session) != self._revision:
            self.load(self.part.leg)
        else:
            self._look_around()

    def waits(self) -> Refusal | None:
        """Whether an effect has to wait for what others know, since this device woke, or the daemon started."""
        self._look_around()
        return self.part.waits(now_ms())

    def _look_around(self) -> None:
        now, known = around.around(self._session), self._store.arrived.knowing(self._session)
        if (now, known) != (self.part.around, self.part.acknowledged_by):
            self.part = replace(self.part, around=now, acknowledged_by=known)

    def may_append(self) -> Refusal | None:
        """Door 1."""
        return self.part.may_append()

    def may_start(
        self, effect: EffectId, kind: EffectKind, request: bytes, effects: Mapping[EffectId, Progress]
    ) -> Refusal | None:
        """Door 2, once a checkpoint that says `effects` is written."""
        self.kinds[effect] = kind
        return self.part.may_start(effect, Sha256(sha256(request).digest()), now_ms(), effects)

    def signed(self, signed: Signed) -> None:
        """This device signed a statement, and it is written."""
        fact = lineage.fact(signed, True)
        part = self.part.signed(fact)
        if isinstance(fact, Checkpoint) and part.leg is not None and part.leg.running in fact.effects:
            part = replace(part, leg=replace(part.leg, running=None))  # It has ended, or did not begin.
        self.part = part
        self.seq = signed.body.seq + 1
        self._revision = revision(self._store, self._session)
