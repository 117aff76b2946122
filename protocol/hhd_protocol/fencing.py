"""Who may advance a session, computed anew from the whole set of statements (`protocol/spec/fencing.md`).

Nothing here depends on the order in which statements came, on a clock or on a server: two devices that hold the same
set name the same owner, the same heads and the same uncertain effects. `resolve` is the third of the three doors; the
other two (appending, and starting an effect) ask its answer for `token`.

The way chosen: four passes over the set, each a small class that knows only those before it: revocations, records,
checkpoints, effects. Rejected: updating a state as statements come, since a late statement may undo what an early one
meant, and a second code path for that is a second meaning.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Intent,
    Progress,
    Record,
    RecordKind,
    Revocation,
    Role,
    Statement,
)


class Standing(enum.Enum):
    """What became of a statement."""

    COUNTS = "counts"
    HELD = "held"
    """Its signer, parents or records are not here yet."""
    REFUSED = "refused"
    """It, or what it stands on, breaks a rule; nothing that comes later can mend that."""
    SEALED = "sealed"
    """From a revoked device, after the cut-off: kept, shown, grants nothing."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """The right to advance a session: never the number alone."""

    number: int
    id: StatementId


@dataclass(frozen=True, kw_only=True)
class View:
    """What one set of statements means.

    `token` and `owner` are None only while the create record is not here. `main` is the tip of the owner's line; None
    when the line is split or its start is not here. `uncertain`: effects that may have run, on the main line.
    `evidence`: those of them for which another head holds a receipt. `rolled_back`: devices whose chain forks.
    """

    owner: DeviceId | None
    owner_revoked: bool
    token: Token | None
    main: StatementId | None
    heads: frozenset[StatementId]
    refused: frozenset[StatementId]
    held: frozenset[StatementId]
    sealed: frozenset[StatementId]
    revoked: frozenset[DeviceId]
    rolled_back: frozenset[DeviceId]
    uncertain: frozenset[EffectId]
    evidence: frozenset[EffectId]

    @property
    def competing(self) -> bool:
        """Whether there is more than one head."""
        return len(self.heads) > 1


def resolve(
    *,
    session: StatementId,
    members: Mapping[DeviceId, Role],
    records: Iterable[Record],
    checkpoints: Iterable[Checkpoint],
    revocations: Iterable[Revocation] = (),
    intents: Iterable[Intent] = (),
    kinds: Mapping[EffectId, EffectKind] | None = None,
) -> View:
    """Sort the statements of `session`, its id being that of its create record."""
    every_record = {record.id: record for record in records}
    every_checkpoint = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    every_revocation = {revocation.id: revocation for revocation in revocations}
    statements: dict[StatementId, Statement] = {**every_record, **every_checkpoint, **every_revocation}
    cutoffs = _Cutoffs(statements, every_revocation, members)
    chain = _Chain(session, every_record, members, cutoffs)
    lineage = _Lineage(every_checkpoint, members, cutoffs, chain)
    doubts = _Doubts(chain, lineage, cutoffs, list(intents), kinds or {})
    standings = {**chain.standings, **lineage.standings}

    def of(standing: Standing) -> frozenset[StatementId]:
        return frozenset(id for id, found in standings.items() if found is standing)

    top = chain.top
    return View(
        owner=top.to if top else None,
        owner_revoked=top is not None and top.to in cutoffs.revoked,
        token=Token(number=top.number, id=top.id) if top else None,
        main=lineage.main,
        heads=lineage.heads,
        refused=of(Standing.REFUSED),
        held=of(Standing.HELD),
        sealed=of(Standing.SEALED),
        revoked=frozenset(cutoffs.revoked),
        rolled_back=cutoffs.rolled_back,
        uncertain=doubts.uncertain,
        evidence=doubts.evidence,
    )


class _Cutoffs:
    """Which statements of revoked devices still count: those up to a named last one in the signer's own chain."""

    def __init__(
        self,
        statements: Mapping[StatementId, Statement],
        revocations: Mapping[StatementId, Revocation],
        members: Mapping[DeviceId, Role],
    ) -> None:
        self._statements = statements
        self._counted: dict[StatementId, bool] = {}
        candidates = {
            id: revocation
            for id, revocation in revocations.items()
            if revocation.signature_good and members.get(revocation.by) is Role.FULL
        }
        pasts = {id: self._past(id) for id in candidates}
        # A revocation seen by another has the smaller past, so the order by size settles the earlier ones first.
        for id in sorted(candidates, key=lambda id: (len(pasts[id]), id)):
            self._counted[id] = not any(
                self._counted.get(earlier, False) and candidates[earlier].device == candidates[id].by
                for earlier in pasts[id] & candidates.keys()
            )
        self.revoked: set[DeviceId] = set()
        self._accepted: set[StatementId] = set()
        for id, counts in self._counted.items():
            if counts:
                self.revoked.add(candidates[id].device)
                self._accept(candidates[id])
        self.rolled_back = self._forked_chains()

    def seals(self, statement: Statement) -> bool:
        """Whether `statement` is from a revoked device and after its cut-off."""
        return statement.by in self.revoked and statement.id not in self._accepted

    def _accept(self, revocation: Revocation) -> None:
        at = revocation.last
        while at is not None and (statement := self._statements.get(at)) and statement.by == revocation.device:
            self._accepted.add(at)
            at = statement.after

    def _past(self, id: StatementId) -> set[StatementId]:
        """Everything that the statement, directly or through others, names."""
        past: set[StatementId] = set()
        queue = [id]
        while queue:
            statement = self._statements.get(queue.pop())
            if statement is not None:
                fresh = [named for named in _named_by(statement) if named not in past]
                past.update(fresh)
                queue.extend(fresh)
        past.discard(id)
        return past

    def _forked_chains(self) -> frozenset[DeviceId]:
        followers: dict[tuple[DeviceId, StatementId | None], StatementId] = {}
        forked = set()
        for statement in self._statements.values():
            if statement.signature_good:
                first = followers.setdefault((statement.by, statement.after), statement.id)
                if first != statement.id:
                    forked.add(statement.by)
        return frozenset(forked)


def _named_by(statement: Statement) -> list[StatementId]:
    named = [statement.after]
    if isinstance(statement, Record):
        named += [statement.prev, statement.head]
    elif isinstance(statement, Checkpoint):
        named += [statement.token, *statement.parents]
    elif isinstance(statement, Revocation):
        named.append(statement.last)
    return [id for id in named if id is not None]


class _Chain:
    """The ownership records: which count, and which of those is the highest."""

    def __init__(
        self,
        session: StatementId,
        records: Mapping[StatementId, Record],
        members: Mapping[DeviceId, Role],
        cutoffs: _Cutoffs,
    ) -> None:
        self.records = records
        self._session = session
        self._members = members
        self._cutoffs = cutoffs
        self.standings: dict[StatementId, Standing] = {}
        # Numbers rise by one along the chain, so ascending order sees a predecessor before what stands on it.
        for record in sorted(records.values(), key=lambda record: (record.number, record.id)):
            self.standings[record.id] = self._judge(record)
        counting = [records[id] for id, standing in self.standings.items() if standing is Standing.COUNTS]
        self.top = max(counting, key=_rank, default=None)

    def _judge(self, record: Record) -> Standing:
        if not record.signature_good or not self._follows_the_rules(record):
            return Standing.REFUSED
        below = Standing.COUNTS
        if record.prev is not None:
            below = self.standings.get(record.prev, Standing.HELD)
        if below is Standing.REFUSED:
            return Standing.REFUSED
        if below is Standing.HELD or not {record.by, record.to} <= self._members.keys():
            return Standing.HELD
        return Standing.SEALED if self._cutoffs.seals(record) else Standing.COUNTS

    def _follows_the_rules(self, record: Record) -> bool:
        """Whether nothing that is here already speaks against the record; what is not here yet may still."""
        if any(self._members.get(device, Role.FULL) is not Role.FULL for device in (record.by, record.to)):
            return False
        if record.kind is RecordKind.CREATE:
            own = record.id == self._session and record.to == record.by
            return own and record.number == 1 and record.prev is None and record.head is None
        prev = self.records.get(record.prev) if record.prev is not None else None
        if record.prev is None or record.pending or (prev is not None and record.number != prev.number + 1):
            return False
        if record.kind is RecordKind.TAKEOVER:
            return record.to == record.by
        return record.to != record.by and (prev is None or record.by == prev.to)

    def upward(self) -> list[Record]:
        """The chain from the create record to the top one."""
        path: list[Record] = []
        at = self.top
        while at is not None:
            path.append(at)
            at = self.records.get(at.prev) if at.prev is not None else None
        return path[::-1]


def _rank(record: Record) -> tuple[int, bool, StatementId]:
    """The order of records: the number, then a release before a takeover, then the greater id, as bytes."""
    return record.number, record.kind is RecordKind.RELEASE, record.id


class _Lineage:
    """The checkpoints: which count, which are heads, and where the owner's line ends."""

    def __init__(
        self,
        checkpoints: Mapping[StatementId, Checkpoint],
        members: Mapping[DeviceId, Role],
        cutoffs: _Cutoffs,
        chain: _Chain,
    ) -> None:
        self.checkpoints = checkpoints
        self._members = members
        self._cutoffs = cutoffs
        self._chain = chain
        self.standings: dict[StatementId, Standing] = {}
        for checkpoint in self._parents_first():
            self.standings[checkpoint.id] = self._judge(checkpoint)
        self.counting = [checkpoints[id] for id, found in self.standings.items() if found is Standing.COUNTS]
        self.main = self._tip()
        hidden = {parent for checkpoint in self.counting for parent in checkpoint.parents}
        tips = {checkpoint.id for checkpoint in self.counting} - hidden
        self.heads = frozenset(tips | ({self.main} if self.main is not None else set()))

    def _parents_first(self) -> list[Checkpoint]:
        children: dict[StatementId, list[StatementId]] = {}
        waiting: dict[StatementId, int] = {}
        for checkpoint in self.checkpoints.values():
            here = {parent for parent in checkpoint.parents if parent in self.checkpoints}
            waiting[checkpoint.id] = len(here)
            for parent in here:
                children.setdefault(parent, []).append(checkpoint.id)
        ready = [id for id, count in waiting.items() if count == 0]
        order = []
        while ready:
            id = ready.pop()
            order.append(self.checkpoints[id])
            for child in children.get(id, ()):
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        assert len(order) == len(self.checkpoints), "ids are hashes: no statement can name its own descendant"
        return order

    def _judge(self, checkpoint: Checkpoint) -> Standing:
        token = self._chain.records.get(checkpoint.token)
        if not checkpoint.signature_good or (token is not None and token.to != checkpoint.by):
            return Standing.REFUSED
        grounds = [self.standings.get(parent, Standing.HELD) for parent in checkpoint.parents]
        grounds.append(self._chain.standings.get(checkpoint.token, Standing.HELD))
        if Standing.REFUSED in grounds:
            return Standing.REFUSED
        if Standing.HELD in grounds or checkpoint.by not in self._members:
            return Standing.HELD
        return Standing.SEALED if self._cutoffs.seals(checkpoint) else Standing.COUNTS

    def _tip(self) -> StatementId | None:
        top = self._chain.top
        if top is None:
            return None
        if top.head is not None and self.standings.get(top.head) not in (Standing.COUNTS, Standing.SEALED):
            return None
        children: dict[StatementId | None, list[StatementId]] = {}
        for checkpoint in self.counting:
            if checkpoint.token == top.id:
                for parent in checkpoint.parents or (None,):
                    children.setdefault(parent, []).append(checkpoint.id)
        at = top.head
        while followers := children.get(at):
            if len(followers) > 1:
                return None
            at = followers[0]
        return at

    def ancestry(self) -> list[Checkpoint]:
        """The checkpoints from the session's start to the main tip, parents first; empty without a tip."""
        if self.main is None:
            return []
        found: set[StatementId] = set()
        queue = [self.main]
        while queue:
            id = queue.pop()
            if id in self.checkpoints and id not in found:
                found.add(id)
                queue.extend(self.checkpoints[id].parents)
        return [self.checkpoints[id] for id in self.standings if id in found]


class _Doubts:
    """Effects that may have run although the main line holds no answer.

    An unanswered effect was asked (or, by a person's word, asked anew) under some token. Every token from that one on,
    other than the top one, had a holder who may have started it. A holder is cleared by its release, which proves "not
    started" unless its chain shows a roll-back, or by its closing checkpoint that says "asked".
    """

    def __init__(
        self,
        chain: _Chain,
        lineage: _Lineage,
        cutoffs: _Cutoffs,
        intents: list[Intent],
        kinds: Mapping[EffectId, EffectKind],
    ) -> None:
        self._chain = chain
        self._lineage = lineage
        self._cutoffs = cutoffs
        self._on_main = lineage.ancestry()
        self._children: dict[StatementId, list[Record]] = {}
        for record in chain.records.values():
            if record.prev is not None and chain.standings[record.id] in (Standing.COUNTS, Standing.SEALED):
                self._children.setdefault(record.prev, []).append(record)
        doubtful = self._find(intents) if lineage.main is not None else set()
        self.uncertain = frozenset(e for e in doubtful if kinds.get(e, EffectKind.TOOL) is EffectKind.TOOL)
        self.evidence = self.uncertain & self._receipts_elsewhere()

    def _find(self, intents: list[Intent]) -> set[EffectId]:
        progress: dict[EffectId, Progress] = {}
        asked_under: dict[EffectId, set[StatementId]] = {}
        for checkpoint in self._on_main:
            for effect, said in checkpoint.effects.items():
                if said is Progress.RERUN or effect not in progress:
                    asked_under[effect] = {checkpoint.token}
                progress[effect] = said
        for intent in intents:
            if progress.get(intent.effect) is not Progress.RERUN:
                asked_under.setdefault(intent.effect, set()).add(intent.token)
        top = self._chain.top
        closed = {effect for effect, said in progress.items() if said in (Progress.ANSWERED, Progress.SETTLED)}
        doubtful = {
            effect
            for effect, tokens in asked_under.items()
            if effect not in closed and self._may_have_run(effect, tokens, progress.get(effect))
        }
        for record in self._chain.upward() if top else ():
            doubtful.update(effect for effect in record.pending if effect not in progress)
        return doubtful

    def _may_have_run(self, effect: EffectId, tokens: set[StatementId], said: Progress | None) -> bool:
        top = self._chain.top
        assert top is not None
        for token in self._tokens_from(tokens):
            if token == top.id or token not in self._chain.records:
                continue
            if token in tokens and said is Progress.STARTED:
                return True
            if not self._cleared(effect, token, asked_there=token in tokens):
                return True
        return False

    def _tokens_from(self, tokens: set[StatementId]) -> set[StatementId]:
        found: set[StatementId] = set()
        queue = list(tokens)
        while queue:
            token = queue.pop()
            if token not in found:
                found.add(token)
                queue.extend(record.id for record in self._children.get(token, ()))
        return found

    def _cleared(self, effect: EffectId, token: StatementId, *, asked_there: bool) -> bool:
        # A holder that asked the effect itself, but whose closing journal no longer knows it, proves nothing.
        unknown = Progress.STARTED if asked_there else Progress.ASKED
        holder = self._chain.records[token].to
        if holder not in self._cutoffs.rolled_back and any(
            record.kind is RecordKind.RELEASE and self._chain.standings[record.id] is Standing.COUNTS
            for record in self._children.get(token, ())
        ):
            return True
        return any(
            checkpoint.closing
            and checkpoint.token == token
            and checkpoint.journal.get(effect, unknown) is Progress.ASKED
            for checkpoint in self._lineage.counting
        )

    def _receipts_elsewhere(self) -> frozenset[EffectId]:
        main = {checkpoint.id for checkpoint in self._on_main}
        return frozenset(
            effect
            for checkpoint in self._lineage.counting
            if checkpoint.id not in main
            for effect, said in {**checkpoint.journal, **checkpoint.effects}.items()
            if said is Progress.ANSWERED
        )
