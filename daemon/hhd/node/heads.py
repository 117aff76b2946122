"""The heads of a session: where each stands, who made it, and what it holds past the place where it parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hhd.node import transcripts
from hhd.node.answers import Head
from hhd.node.devices import Devices
from hhd.node.folding import told
from hhd.node.lineages import Lineage
from hhd.store.errors import MissingError, ThinnedError
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId


@dataclass(frozen=True, kw_only=True)
class HeadsOf:
    """The heads of one session in `store`; `picked` is the one that a person prefers."""

    store: Store
    lineage: Lineage
    devices: Devices
    picked: CheckpointId | None = None

    def all(self) -> tuple[Head, ...]:
        """Every head, the main one first; then what is kept and is no head."""
        shown = [self._head(one, "head") for one in self.lineage.heads]
        held = self.lineage.view.held
        return (*shown, *(self._head(one, "held" if one in held else "sealed") for one in self.lineage.unsorted))

    @cached_property
    def _line(self) -> CheckpointId | None:
        """The head that others are compared with: the main one, or the first where the owner's line is split."""
        return next(iter(self.lineage.heads), None)

    def _head(self, head: CheckpointId, standing: str) -> Head:
        body = self.lineage.bodies[head]
        fork = self._fork(head)
        past = self.lineage.past(head, fork)
        begun = 0 if fork is None else self.lineage.bodies[fork].position
        return Head(
            id=head.hex(),
            device=self.devices.shown(body.by),
            at_ms=body.at_ms,
            token=self.lineage.number(body.token),
            main=head == self.lineage.view.main,
            picked=head == self.picked,
            standing=standing,
            fork=None if fork is None else fork.hex(),
            turns=sum(self.lineage.bodies[one].turn for one in past),
            effects=max(0, body.position - begun),
            files=self._files(head, fork),
        )

    def _fork(self, head: CheckpointId) -> CheckpointId | None:
        """Where `head` parts from the line; for the line's own head, where the last of the others parts from it."""
        line = self._line
        assert line is not None or head not in self.lineage.heads
        if line is None:
            return None
        if head != line:
            return self.lineage.fork_point(line, head)
        forks = {self.lineage.fork_point(line, other) for other in self.lineage.heads if other != line}
        return next((one for one in self.lineage.ancestors(line) if one in forks), None)

    def _files(self, head: CheckpointId, fork: CheckpointId | None) -> tuple[str, ...] | None:
        try:
            checkpoint = self.store.checkpoint(head)
            start = 0
            if fork is not None:
                start = transcripts.shared(self.store, self.store.checkpoint(fork), checkpoint)
            return told(transcripts.lines(transcripts.parts(self.store, checkpoint, start))).files
        except (ThinnedError, MissingError):
            return None
