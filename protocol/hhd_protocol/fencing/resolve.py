"""Sorts the statements of a session: the four passes in order, then what was removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hhd_protocol.fencing.chain import Chain
from hhd_protocol.fencing.cutoffs import Cutoffs, named_by
from hhd_protocol.fencing.doubts import Doubts
from hhd_protocol.fencing.graph import Graph
from hhd_protocol.fencing.removal import uncovered, valid_tombstones
from hhd_protocol.fencing.view import Standing, Token, View
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Fact,
    Intent,
    Progress,
    Receipt,
    Record,
    Revocation,
    Role,
    Tombstone,
)


def resolve(
    *,
    session: StatementId,
    members: Mapping[DeviceId, Role],
    records: Iterable[Record] = (),
    checkpoints: Iterable[Checkpoint] = (),
    revocations: Iterable[Revocation] = (),
    intents: Iterable[Intent] = (),
    receipts: Iterable[Receipt] = (),
    tombstones: Iterable[Tombstone] = (),
    kinds: Mapping[EffectId, EffectKind] | None = None,
) -> View:
    """Sort the statements of `session`, its id being that of its create record."""
    facts: list[Fact] = [*records, *checkpoints, *revocations, *intents, *receipts, *tombstones]
    return Resolved(session=session, members=members, facts=facts, kinds=kinds).view


class Resolved:
    """The statements of one session with what they mean, `view`, which grows by what is added.

    The view is always what `resolve` says of all of them. What a running session adds all the time, the owner's next
    checkpoint on the tip of its line and its next intent, is worked in at the cost of what it says; whatever else comes
    is sorted with all the rest from the beginning, so that there is one meaning.
    """

    def __init__(
        self,
        *,
        session: StatementId,
        members: Mapping[DeviceId, Role],
        facts: Iterable[Fact] = (),
        kinds: Mapping[EffectId, EffectKind] | None = None,
    ) -> None:
        """`kinds` may grow, but knows an effect's kind by the time that a statement speaks of it."""
        self.session, self.members, self._kinds = session, members, kinds if kinds is not None else {}
        self.facts: dict[StatementId, Fact] = {fact.id: fact for fact in facts}
        self.view = self._sorted()

    def add(self, facts: Iterable[Fact]) -> View:
        """Take in `facts`, known ones or not, and return the view."""
        fresh = {fact.id: fact for fact in facts if fact.id not in self.facts}
        for fact in fresh.values():
            if not self._worked_in(fact):
                self.facts |= fresh
                self.view = self._sorted()
                break
        return self.view

    def progress(self, head: StatementId | None) -> Mapping[EffectId, Progress]:
        """How far each effect came on the line that ends at `head`; good until something is added."""
        return self._doubts.progress(head)

    def would_doubt(self, effect: EffectId, saying: Mapping[EffectId, Progress]) -> bool:
        """Whether `effect` is uncertain once the owner's line went on by a checkpoint that says `saying`."""
        return self._doubts.would_doubt(effect, saying) if effect in saying else effect in self.view.uncertain

    def last_of(self, device: DeviceId) -> tuple[StatementId, ...]:
        """Return where the chain of `device` ends, as far as it counts: more than one where it forked, ascending."""
        here = [
            fact
            for fact in self.facts.values()
            if fact.by == device and fact.signature_good and not self._cutoffs.seals(fact)
        ]
        return tuple(sorted({fact.id for fact in here}.difference(fact.after for fact in here if fact.after)))

    def _sorted(self) -> View:
        records: dict[StatementId, Record] = {}
        checkpoints: dict[StatementId, Checkpoint] = {}
        revocations: dict[StatementId, Revocation] = {}
        intents, receipts, tombstones = list[Intent](), list[Receipt](), list[Tombstone]()
        for id, fact in self.facts.items():
            match fact:
                case Checkpoint():
                    checkpoints[id] = fact
                case Record():
                    records[id] = fact
                case Revocation():
                    revocations[id] = fact
                case Intent():
                    intents.append(fact)
                case Receipt():
                    receipts.append(fact)
                case Tombstone():
                    tombstones.append(fact)
        self._awaited: set[StatementId] | None = None
        self._cutoffs = Cutoffs(self.facts, revocations, self.members)
        self._chain = Chain(self.session, records, self.members, self._cutoffs)
        self._graph = Graph(checkpoints, self.members, self._cutoffs, self._chain)
        self._doubts = Doubts(self._chain, self._graph, self._cutoffs, intents, receipts, self._kinds)
        self._tombstones = valid_tombstones(tombstones, self.members, self._cutoffs)
        return self._view({**self._chain.standings, **self._graph.standings})

    def _view(self, standings: Mapping[StatementId, Standing]) -> View:
        of: dict[Standing, set[StatementId]] = {standing: set() for standing in Standing}
        for id, standing in standings.items():
            of[standing].add(id)
        top = self._chain.top
        kept = self._graph.checkpoints.keys() - of[Standing.REFUSED]
        beyond = uncovered(self._tombstones, kept) if self._tombstones else frozenset()
        return View(
            owner=top.to if top else None,
            owner_revoked=top is not None and top.to in self._cutoffs.revoked,
            token=Token(number=top.number, id=top.id) if top else None,
            main=self._graph.main,
            heads=self._graph.heads,
            refused=frozenset(of[Standing.REFUSED]),
            held=frozenset(of[Standing.HELD]),
            sealed=frozenset(of[Standing.SEALED]),
            revoked=frozenset(self._cutoffs.revoked),
            anew=self._cutoffs.anew,
            rolled_back=self._cutoffs.rolled_back,
            uncertain=self._doubts.uncertain,
            evidence=self._doubts.evidence,
            removed=bool(self._tombstones) and not beyond,
            beyond_removal=beyond,
        )

    def _worked_in(self, fact: Fact) -> bool:
        """Work in a statement that changes nothing but the end of the owner's line, or announces an effect."""
        if not self._continues_its_chain(fact):
            return False
        if isinstance(fact, Intent):
            self._doubts.announce(fact)
        elif isinstance(fact, Checkpoint) and self._continues_the_line(fact):
            self._graph.extend(fact)
            self._doubts.extend(fact)
        else:
            return False
        self.facts[fact.id] = fact
        self._cutoffs.follow(fact)
        self.view = replace(
            self.view,
            main=self._graph.main,
            heads=self._graph.heads,
            uncertain=self._doubts.uncertain,
            evidence=self._doubts.evidence,
        )
        return True

    def _continues_its_chain(self, fact: Fact) -> bool:
        """Whether it is well signed, shows no roll-back, and no statement that was sorted names it.

        What was worked in since names nothing that is not here, except by `after`; and who follows whom matters only
        to a revocation, which is sorted.
        """
        if self._awaited is None:
            self._awaited = {id for one in self.facts.values() for id in named_by(one)} - self.facts.keys()
        return fact.signature_good and fact.id not in self._awaited and not self._cutoffs.has_follower(fact)

    def _continues_the_line(self, checkpoint: Checkpoint) -> bool:
        top, main = self._chain.top, self._graph.main
        if top is None or (checkpoint.token, checkpoint.by) != (top.id, top.to):
            return False
        if checkpoint.by not in self.members or self._cutoffs.is_cut(checkpoint.by) or self._tombstones:
            return False
        return main is not None and checkpoint.parents == (main,)
