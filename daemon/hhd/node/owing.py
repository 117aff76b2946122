"""Checkpoints that a device writes for what it owes, and not for new work: closing ones, and those before a release."""

from __future__ import annotations

from collections.abc import Mapping

from hhd.base.errors import UserError
from hhd.node.doors import Doors
from hhd.node.kinds import kind_of
from hhd.node.moment import Moment
from hhd.node.signing import Pen
from hhd.node.standing import Step
from hhd.node.step_log import LOG
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol.holding import CheckpointDraft
from hhd_protocol.ids import CheckpointId, EffectId, SessionId
from hhd_protocol.lineage import Signed, effect_id
from hhd_protocol.statements import EffectKind, Progress


def judge_kinds(store: Store, doors: Doors, session: SessionId) -> None:
    """Tell the doors of effects that are open at a head and may be done twice: nothing is owed for those."""
    found = False
    for head in doors.part.known.view.heads:
        try:
            pending = Moment(store, CheckpointId(head)).standing.journal.pending
        except UserError:  # Its content is not here: then its effects count as such that may not be done twice.
            continue
        if pending is not None and (kind := kind_of(pending)) is not EffectKind.TOOL:
            doors.kinds[effect_id(session, pending.index)] = kind
            found = True
    if found:
        doors.load(doors.part.leg)
    else:
        doors.look()


def write_checkpoint(store: Store, pen: Pen, session: SessionId, draft: CheckpointDraft) -> None:
    """Write a checkpoint without new work, which stands where the one before it stood; a closing one among them."""
    (parent,) = draft.parents
    moment = Moment(store, CheckpointId(parent))
    settled = moment.standing.journal.settled
    positions = {effect_id(session, at): at for at in range(settled + 1)}

    def by_position(said: Mapping[EffectId, Progress]) -> Mapping[int, Progress]:
        return {at: said[effect] for effect, at in positions.items() if effect in said}

    signed: list[Signed] = []

    def sign(bare: Checkpoint) -> bytes:
        effects, journal = by_position(draft.effects), by_position(draft.journal) if draft.closing else None
        signed.append(pen.checkpoint(bare, token=draft.token, effects=effects, journal=journal))
        return signed[0].raw

    appended, _ = moment.recorded.after(Step(standing=moment.standing))
    Line(store, session, CheckpointId(parent)).checkpoint(
        logs={LOG: appended}, journal=settled, workspace=moment.checkpoint.workspace, sign=sign
    )
    pen.written(signed[0])
