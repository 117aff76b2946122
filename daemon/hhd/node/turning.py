"""Going on from another head of a session: a takeover that names it, also by who owns the session already.

What this device then owes its old token is written with it, in the same transaction: a closing checkpoint that says
how far the effects came that are open on the line it leaves. Without that, nobody could tell that they did not run.
"""

from __future__ import annotations

from collections.abc import Mapping

from hhd.base.errors import UserError
from hhd.identity.key import Identity
from hhd.node import listed_step
from hhd.node.doors import Doors, now_ms
from hhd.node.kinds import kind_of
from hhd.node.moment import Moment
from hhd.node.refused import refused
from hhd.node.signing import Pen
from hhd.node.standing import Step
from hhd.node.step_log import LOG
from hhd.node.stored_session import doubted_by
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol.holding import CheckpointDraft, Done, GoOnFrom, Persist, RecordDraft, Refuse, decide
from hhd_protocol.ids import CheckpointId, EffectId, SessionId
from hhd_protocol.lineage import Signed, effect_id
from hhd_protocol.statements import EffectKind, Progress


def turn_to(store: Store, me: Identity, session: SessionId, head: CheckpointId, reason: str) -> None:
    """Make `head` the one that `session` goes on from, on this device; nothing if it is that.

    `reason`: in a person's words, at most 1,000 bytes. Raises RefusedError, BusyError where a process advances it.
    """
    with store.advance(session), store.transaction():
        doors = Doors(store, me, session)
        _judge_kinds(store, doors, session)
        pen = Pen(store, me, session, doors)
        wish: GoOnFrom | None = GoOnFrom(head=head, reason=reason)
        while outputs := decide(doors.part, wish, now_ms()):
            for output in outputs:
                match output:
                    case Done() if wish is not None:
                        return  # It is that head already.
                    case Refuse(refusal=refusal):
                        raise refused(session, refusal, doors.part.known.view)
                    case Persist(draft=RecordDraft() as draft):
                        pen.takeover(prev=draft.prev, number=draft.number, head=head, reason=draft.reason)
                        wish = None  # What is owed for the tokens that are lost by it comes now.
                    case Persist(draft=CheckpointDraft() as draft):
                        _close(store, pen, session, draft)
        view = doors.part.known.view
        assert view.token is not None and view.main == head
        standing = doubted_by(view, session, Moment(store, head).standing)
        listed_step.turned(store, session, standing, token=view.token.number, heads=len(view.heads))


def _judge_kinds(store: Store, doors: Doors, session: SessionId) -> None:
    """Tell the doors of effects that are open at a head and may be done twice: nothing is owed for those."""
    for head in doors.part.known.view.heads:
        try:
            pending = Moment(store, CheckpointId(head)).standing.journal.pending
        except UserError:  # Its content is not here: then its effects count as such that may not be done twice.
            continue
        if pending is not None and (kind := kind_of(pending)) is not EffectKind.TOOL:
            doors.kinds[effect_id(session, pending.index)] = kind
    doors.load(doors.part.leg)


def _close(store: Store, pen: Pen, session: SessionId, draft: CheckpointDraft) -> None:
    """Write a closing checkpoint, which stands where the line that it ends stood."""
    (parent,) = draft.parents
    moment = Moment(store, CheckpointId(parent))
    settled = moment.standing.journal.settled
    positions = {effect_id(session, at): at for at in range(settled + 1)}

    def by_position(said: Mapping[EffectId, Progress]) -> Mapping[int, Progress]:
        return {at: said[effect] for effect, at in positions.items() if effect in said}

    signed: list[Signed] = []

    def sign(bare: Checkpoint) -> bytes:
        effects, journal = by_position(draft.effects), by_position(draft.journal)
        signed.append(pen.checkpoint(bare, token=draft.token, effects=effects, journal=journal))
        return signed[0].raw

    appended, _ = moment.recorded.after(Step(standing=moment.standing))
    Line(store, session, CheckpointId(parent)).checkpoint(
        logs={LOG: appended}, journal=settled, workspace=moment.checkpoint.workspace, sign=sign
    )
    pen.written(signed[0])
