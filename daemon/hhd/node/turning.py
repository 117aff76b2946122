"""Going on from another head of a session: a takeover that names it, also by who owns the session already.

What this device then owes its old token is written with it, in the same transaction: a closing checkpoint that says
how far the effects came that are open on the line it leaves. Without that, nobody could tell that they did not run.
"""

from __future__ import annotations

from collections.abc import Callable

from hhd.identity.key import Identity
from hhd.node import files_due, listed_step, sessions
from hhd.node.doors import Doors, now_ms
from hhd.node.moment import Moment
from hhd.node.owing import judge_kinds, write_checkpoint
from hhd.node.refused import refused
from hhd.node.signing import Pen
from hhd.node.stored_session import doubted_by
from hhd.store.store import Store
from hhd_protocol.holding import CheckpointDraft, Done, GoOnFrom, Persist, RecordDraft, Refuse, TakeOver, decide
from hhd_protocol.ids import CheckpointId, SessionId


def turn_to(store: Store, me: Identity, session: SessionId, head: CheckpointId, reason: str) -> None:
    """Make `head` the one that `session` goes on from, on this device; nothing if it is that.

    The folder stays as it is; but where another device had the session and made that head, its files are due here.
    `reason`: in a person's words, at most 1,000 bytes. Raises RefusedError, BusyError where a process advances it.
    """
    made, had = store.statements.get(session, head), sessions.view(store, me, session).owner
    comes = made is not None and me.id not in (made.body.by, had)

    def taken() -> None:
        if comes:
            files_due.note(store, session)

    carry_out(store, me, session, GoOnFrom(head=head, reason=reason), then=taken)


def carry_out(
    store: Store,
    me: Identity,
    session: SessionId,
    wished: GoOnFrom | TakeOver,
    *,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Write the record that `wished` is fulfilled by, and what is owed then; as `turn_to`.

    `then` writes in the same transaction, where a record was written.
    """
    with store.advance(session), store.transaction():
        doors = Doors(store, me, session)
        judge_kinds(store, doors, session)
        pen = Pen(store, me, session, doors)
        wish: GoOnFrom | TakeOver | None = wished
        while outputs := decide(doors.part, wish, now_ms()):
            for output in outputs:
                match output:
                    case Done() if wish is not None:
                        return  # It is that head already.
                    case Refuse(refusal=refusal):
                        raise refused(session, refusal, doors.part.known.view)
                    case Persist(draft=RecordDraft() as draft):
                        assert draft.head is not None, "a session has a checkpoint before anybody takes it over"
                        head = CheckpointId(draft.head)
                        pen.takeover(prev=draft.prev, number=draft.number, head=head, reason=draft.reason)
                        wish = None  # What is owed for the tokens that are lost by it comes now.
                    case Persist(draft=CheckpointDraft() as draft):
                        write_checkpoint(store, pen, session, draft)
        view = doors.part.known.view
        assert view.token is not None and view.main is not None
        standing = doubted_by(view, session, Moment(store, CheckpointId(view.main)).standing)
        listed_step.turned(store, session, standing, token=view.token.number, heads=len(view.heads))
        then()
