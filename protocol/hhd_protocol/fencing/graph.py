"""The third pass of fencing: which checkpoints count, which are heads, and where the owner's line ends."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.fencing.chain import Chain
from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.fencing.view import Standing
from hhd_protocol.ids import DeviceId, StatementId
from hhd_protocol.statements import Checkpoint, Role


class Graph:
    """The checkpoints: which count, which are heads, and where the owner's line ends."""

    def __init__(
        self,
        checkpoints: dict[StatementId, Checkpoint],
        members: Mapping[DeviceId, Role],
        cutoffs: Cutoffs,
        chain: Chain,
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

    def extend(self, checkpoint: Checkpoint) -> None:
        """The owner's line went on by one checkpoint that counts and that nothing here had named."""
        self.checkpoints[checkpoint.id] = checkpoint
        self.standings[checkpoint.id] = Standing.COUNTS
        self.counting.append(checkpoint)
        self.heads = self.heads.difference((self.main,)) | {checkpoint.id}
        self.main = checkpoint.id

    def _parents_first(self) -> list[Checkpoint]:
        seen: set[StatementId] = set()
        for checkpoint in self.checkpoints.values():
            if any(parent not in seen and parent in self.checkpoints for parent in checkpoint.parents):
                break
            seen.add(checkpoint.id)
        else:
            return list(self.checkpoints.values())  # As they came is already right, as nearly always.
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
        worst = self._chain.standings.get(checkpoint.token, Standing.HELD)
        for parent in checkpoint.parents:
            ground = self.standings.get(parent, Standing.HELD)
            if ground is Standing.REFUSED or worst is Standing.COUNTS or worst is Standing.SEALED:
                worst = ground
        if worst is Standing.REFUSED:
            return Standing.REFUSED
        if worst is Standing.HELD or checkpoint.by not in self._members:
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

    def ancestry(self, head: StatementId | None) -> list[Checkpoint]:
        """The checkpoints from the session's start to `head`, parents first; empty without a head."""
        if head is None:
            return []
        found: set[StatementId] = set()
        queue = [head]
        while queue:
            id = queue.pop()
            if id in self.checkpoints and id not in found:
                found.add(id)
                queue.extend(self.checkpoints[id].parents)
        return [self.checkpoints[id] for id in self.standings if id in found]
