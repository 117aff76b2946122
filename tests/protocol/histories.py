"""Random histories of one session: what several devices may have signed, well or badly, in any order of arrival."""

from __future__ import annotations

import random
from hashlib import sha256

from hhd_protocol.fencing import View, resolve
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Fact,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Revocation,
    Role,
    Tombstone,
)

A, B, C, D, STRANGER = (DeviceId(name) for name in (b"A", b"B", b"C", b"D", b"S"))
MEMBERS = {A: Role.FULL, B: Role.FULL, C: Role.FULL, D: Role.CONTROLLER}
EFFECTS = [EffectId(b"e%d" % number) for number in range(6)]
KINDS = {EFFECTS[5]: EffectKind.REPEATABLE}


def meaning(session: StatementId, facts: list[Fact]) -> View:
    """What `resolve` says of `facts`."""
    return resolve(
        session=session,
        members=MEMBERS,
        records=[f for f in facts if isinstance(f, Record)],
        checkpoints=[f for f in facts if isinstance(f, Checkpoint)],
        revocations=[f for f in facts if isinstance(f, Revocation)],
        intents=[f for f in facts if isinstance(f, Intent)],
        receipts=[f for f in facts if isinstance(f, Receipt)],
        tombstones=[f for f in facts if isinstance(f, Tombstone)],
        kinds=KINDS,
    )


class History:
    """Statements of one session, made one after the other; mostly what a session at work makes."""

    def __init__(self, seed: int, calm: float = 0.7) -> None:
        """`calm`: how much of it is the owner's next checkpoint or intent."""
        self.dice, self._seed, self._calm = random.Random(seed), seed, calm
        self.facts: list[Fact] = []
        self._ends: dict[DeviceId, StatementId] = {}
        self.session = self._id()
        pending = tuple(self.dice.sample(EFFECTS, self.dice.choice((0, 0, 2))))
        self._add(
            Record(
                **self._said(A, self.session),
                kind=RecordKind.CREATE,
                to=A,
                prev=None,
                number=1,
                head=None,
                pending=pending,
            )
        )

    def grow(self) -> Fact:
        """Make the next statement."""
        view = meaning(self.session, self.facts)
        if view.token is not None and view.owner is not None and self.dice.random() < self._calm:
            if self.dice.random() < 0.25:
                return self._add(self._intent(view.owner, view.token.id))
            parents = (view.main,) if view.main is not None else ()
            return self._add(self._checkpoint(view.owner, view.token.id, parents))
        return self._add(self._rare(view))

    def _rare(self, view: View) -> Fact:
        dice, by = self.dice, self.dice.choice((A, B, C, D, STRANGER, A, B, C))
        records = [f for f in self.facts if isinstance(f, Record)]
        checkpoints = [f for f in self.facts if isinstance(f, Checkpoint)]
        token = dice.choice(records)
        some = [f.id for f in dice.sample(checkpoints, min(len(checkpoints), dice.choice((1, 1, 2))))]
        match dice.randrange(11):
            case 0 | 1:
                prev = dice.choice((token, max(records, key=lambda r: r.number)))
                release = dice.random() < 0.4
                return Record(
                    **self._said(prev.to if release else by),
                    kind=RecordKind.RELEASE if release else RecordKind.TAKEOVER,
                    to=dice.choice((A, B, C)) if release else by,
                    prev=prev.id,
                    number=prev.number + 1,
                    head=dice.choice((view.main, *some, None)),
                )
            case 2 | 3:
                return self._checkpoint(token.to if dice.random() < 0.9 else by, token.id, tuple(some))
            case 10 if view.main is not None:
                return self._checkpoint(dice.choice((A, B, C)), dice.choice((records[-1], token)).id, (view.main,))
            case 4:
                journal = {effect: dice.choice(list(Progress)) for effect in dice.sample(EFFECTS, 2)}
                return self._checkpoint(token.to, token.id, tuple(some[:1]), journal)
            case 5:
                last = dice.choice([None, *[f.id for f in self.facts]])
                return Revocation(**self._said(by), device=dice.choice((A, B, C)), last=last)
            case 6:
                return Receipt(**self._said(token.to), effect=dice.choice(EFFECTS), token=token.id)
            case 7:
                covered = dice.sample(checkpoints, dice.randrange(len(checkpoints) + 1))
                return Tombstone(
                    **self._said(by), heads=tuple(some), covers=frozenset(checkpoint.id[:8] for checkpoint in covered)
                )
            case _:
                return self._intent(dice.choice((by, token.to, token.to)), token.id)

    def _checkpoint(
        self,
        by: DeviceId,
        token: StatementId,
        parents: tuple[StatementId, ...],
        journal: dict[EffectId, Progress] | None = None,
    ) -> Checkpoint:
        said = {
            effect: self.dice.choice(list(Progress)) for effect in self.dice.sample(EFFECTS, self.dice.randrange(3))
        }
        return Checkpoint(
            **self._said(by),
            token=token,
            parents=parents,
            effects=said,
            closing=journal is not None,
            journal=journal or {},
        )

    def _intent(self, by: DeviceId, token: StatementId) -> Intent:
        return Intent(**self._said(by), effect=self.dice.choice(EFFECTS), token=token)

    def _said(self, by: DeviceId, id: StatementId | None = None) -> dict[str, object]:
        after = self._ends.get(by)
        if self.dice.random() < 0.04:  # A disk was rolled back.
            after = self.dice.choice([None, *[f.id for f in self.facts if f.by == by]])
        return {
            "id": id or self._id(),
            "by": by,
            "after": after,
            "signature_good": self.dice.random() > 0.03 or not self.facts,
        }

    def _add(self, fact: Fact) -> Fact:
        self.facts.append(fact)
        self._ends[fact.by] = fact.id
        return fact

    def _id(self) -> StatementId:
        return StatementId(sha256(b"%d %d" % (self._seed, len(self.facts))).digest())


def arriving(facts: list[Fact], dice: random.Random) -> list[list[Fact]]:
    """The same facts as they may come: some late, some twice, one or a few at a time."""
    late = sorted(range(len(facts)), key=lambda at: at + (dice.randrange(12) if dice.random() < 0.15 else 0))
    order = [facts[at] for at in late]
    batches = []
    while order:
        size = dice.choice((1, 1, 1, 2, 5))
        batches.append(order[:size] + dice.sample(facts, dice.choice((0, 0, 1))))
        order = order[size:]
    return batches
