"""The first pass of fencing: who is revoked, what of theirs still counts, whose disk was rolled back."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.ids import DeviceId, StatementId
from hhd_protocol.statements import Checkpoint, Record, Revocation, Role, Statement


class Cutoffs:
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
