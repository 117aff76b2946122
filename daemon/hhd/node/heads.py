"""The heads of a session as they are shown: where each stands, who made it, what it holds past where it parts."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node import transcripts
from hhd.node.answers.heads import Head
from hhd.node.changed_files import CALLS, CAPTURES, changed
from hhd.node.devices import Devices
from hhd.node.folding import told
from hhd.node.head_facts import HeadFacts
from hhd.node.lineages import Lineage
from hhd.store.errors import MissingError, ThinnedError
from hhd.store.store import Store
from hhd_protocol.heads import Tip
from hhd_protocol.ids import CheckpointId


@dataclass(frozen=True, kw_only=True)
class HeadsOf:
    """The heads of one session in `store`; `facts` and `picked` are what a person said of them."""

    store: Store
    lineage: Lineage
    devices: Devices
    facts: HeadFacts
    picked: CheckpointId | None = None

    def all(self) -> tuple[Head, ...]:
        """Every head, the main one first; then what is kept and is no head."""
        return tuple(self._head(tip) for tip in self.lineage.tips)

    def listed(self) -> tuple[Head, ...]:
        """The same without those that are archived; the main head is always among them."""
        return tuple(self._head(tip) for tip in self.lineage.tips if tip.main or not self.facts.archived(tip.id))

    def names(self) -> dict[CheckpointId, str]:
        """The heads that have names, with these."""
        return self.facts.names(self.lineage.tips) if self.facts.named else {}

    def named_at(self, head: CheckpointId) -> CheckpointId:
        """The checkpoint that a head has its name from; itself if it has none."""
        tip = next(tip for tip in self.lineage.tips if tip.id == head)
        return self.facts.named_at(tip) or head

    def _head(self, tip: Tip) -> Head:
        captured = self._captured(tip)
        return Head(
            id=tip.id.hex(),
            name=self.facts.name(tip),
            device=self.devices.shown(tip.by),
            at_ms=tip.last_ms,
            token=self.lineage.number(tip.token),
            main=tip.main,
            picked=tip.id == self.picked or self.picked in tip.past,
            archived=self.facts.archived(tip.id),
            standing=tip.kept.value,
            fork=None if tip.fork is None else tip.fork.hex(),
            turns=tip.turns,
            effects=len(tip.answered),
            waiting=len(tip.open),
            files=self._called(tip) if captured is None else captured,
            files_from=CALLS if captured is None else CAPTURES,
        )

    def _captured(self, tip: Tip) -> tuple[str, ...] | None:
        """The files that changed past the fork by the captures there; without a fork, since the first capture."""
        bodies = self.lineage.bodies
        before = None if tip.fork is None else bodies[tip.fork].workspace
        if tip.fork is None:
            before = next((found for id in reversed(tip.past) if (found := bodies[id].workspace) is not None), None)
        return changed(self.store, self.lineage.session, before, bodies[tip.id].workspace)

    def _called(self, tip: Tip) -> tuple[str, ...] | None:
        """The files that were written past the fork by the calls that the transcript tells of."""
        try:
            checkpoint = self.store.checkpoint(tip.id)
            start = 0
            if tip.fork is not None:
                start = transcripts.shared(self.store, self.store.checkpoint(tip.fork), checkpoint)
            past = transcripts.lines(transcripts.parts(self.store, checkpoint, start))
            return told(past, lambda: transcripts.lead(self.store, checkpoint, start)).files
        except (ThinnedError, MissingError):
            return None
