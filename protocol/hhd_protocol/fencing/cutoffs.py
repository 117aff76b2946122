"""The first pass of fencing: who is revoked, what of theirs still counts, whose disk was rolled back."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.ids import DeviceId, StatementId
from hhd_protocol.statements import Checkpoint, Intent, Receipt, Record, Revocation, Role, Statement, Tombstone


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
            if revocation.judged or (revocation.signature_good and members.get(revocation.by) is Role.FULL)
        }
        pasts = {id: set() if one.judged else self._past(id) for id, one in candidates.items()}
        # A revocation seen by another has the smaller past, so the order by size settles the earlier ones first.
        for id in sorted(candidates, key=lambda id: (len(pasts[id]), id)):
            self._counted[id] = not any(
                self._counted.get(earlier, False) and candidates[earlier].device == candidates[id].by
                for earlier in pasts[id] & candidates.keys()
            )
        counting = [candidates[id] for id, counts in self._counted.items() if counts]
        self._cut = {revocation.device for revocation in counting}
        self.anew = {one.device: frozenset(one.anew) for one in counting if one.anew}
        self.revoked = self._cut - self.anew.keys()
        self._accepted: set[StatementId] = set()
        for revocation in counting:
            self._accept(revocation)
        self._followers: dict[tuple[DeviceId, StatementId | None], StatementId] = {}
        self.rolled_back = self._forked_chains()
        self._accept_anew()

    def has_follower(self, statement: Statement) -> bool:
        """Whether another statement of the same signer is here that follows the same one."""
        return (statement.by, statement.after) in self._followers

    def follow(self, statement: Statement) -> None:
        """One more statement is here, well signed, whose predecessor has no other follower."""
        self._followers[statement.by, statement.after] = statement.id

    def is_cut(self, device: DeviceId) -> bool:
        """Whether only some of what `device` says counts: it was revoked, and perhaps added again."""
        return device in self._cut

    def seals(self, statement: Statement) -> bool:
        """Whether `statement` is from a revoked device and after its cut-off."""
        return statement.by in self._cut and statement.id not in self._accepted

    def _accept(self, revocation: Revocation) -> None:
        at = revocation.last
        while at is not None and (statement := self._statements.get(at)) and statement.by == revocation.device:
            self._accepted.add(at)
            at = statement.after

    def _accept_anew(self) -> None:
        """Accept the chains that begin where a device was added again."""
        following: dict[tuple[DeviceId, StatementId | None], list[StatementId]] = {}
        for statement in self._statements.values():
            if statement.by in self.anew and statement.signature_good:
                following.setdefault((statement.by, statement.after), []).append(statement.id)
        for device, begins in self.anew.items():
            waiting = list(begins)
            while waiting:
                fresh = following.pop((device, waiting.pop()), [])
                self._accepted.update(fresh)
                waiting += fresh

    def _past(self, id: StatementId) -> set[StatementId]:
        """Everything that the statement, directly or through others, names."""
        past: set[StatementId] = set()
        queue = [id]
        while queue:
            statement = self._statements.get(queue.pop())
            if statement is not None:
                fresh = [named for named in named_by(statement) if named not in past]
                past.update(fresh)
                queue.extend(fresh)
        past.discard(id)
        return past

    def _forked_chains(self) -> frozenset[DeviceId]:
        forked = set()
        for statement in self._statements.values():
            if statement.signature_good:
                first = self._followers.setdefault((statement.by, statement.after), statement.id)
                if first != statement.id:
                    forked.add(statement.by)
        return frozenset(forked)


def named_by(statement: Statement) -> list[StatementId]:
    """Return the ids of the statements that a statement names."""
    named = [statement.after]
    if isinstance(statement, Checkpoint):
        named += [statement.token, *statement.parents]
    elif isinstance(statement, Record):
        named += [statement.prev, statement.head]
    elif isinstance(statement, Revocation):
        named.append(statement.last)
    elif isinstance(statement, Intent | Receipt):
        named.append(statement.token)
    elif isinstance(statement, Tombstone):
        named += statement.heads
    return [id for id in named if id is not None]
