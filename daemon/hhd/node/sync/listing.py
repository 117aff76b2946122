"""What a list shows of a session that other devices work on: kept in step with what comes of it."""

from __future__ import annotations

from hhd.node import listing
from hhd.node.listed_step import state_of, title_of, waiting_of
from hhd.node.listing import Listed, State
from hhd.node.moment import Moment
from hhd.node.stored_session import doubted_by
from hhd.node.words import Words
from hhd.store.errors import DamagedStoreError, MissingError, ThinnedError
from hhd.store.store import Store
from hhd_protocol.fencing import View
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId


def show(store: Store, session: SessionId, view: View, *, changed: bool, turns: int = 0) -> None:
    """Say in the lists what `view` means; `changed`: content came. `turns`: so many more. Within a transaction."""
    before = listing.get(store, session)
    listed = before or Listed(id=session, title="", heads=0)
    now = listed._replace(
        owner=view.owner or DeviceId(b""),
        token=0 if view.token is None else view.token.number,
        heads=len(view.heads),
        turns=listed.turns + turns,
    )
    doubtful = now.state is State.UNCERTAIN or (now.state is State.WAITING and view.uncertain)
    if changed or before is None or doubtful:  # What may have run is said by statements alone, too.
        now = _with_content(store, session, view, now)
    if changed or now != before:  # Content counts checkpoints, whatever else it changes.
        listing.put(store, now)


def _with_content(store: Store, session: SessionId, view: View, listed: Listed) -> Listed:
    """`listed` with what the checkpoint says that the session goes on from, if that is here."""
    main = view.main
    if main is None or not store.record(main):
        return listed
    try:
        moment = Moment(store, CheckpointId(main))
        standing = doubted_by(view, session, moment.standing)
        state, pending = state_of(standing), standing.journal.pending
        if state is State.UNCERTAIN and pending is not None and Words(store=store, session=session).settlement(pending):
            state = State.PAUSED  # A person has said what happened, and it goes on with that.
    except (DamagedStoreError, MissingError, ThinnedError):
        return listed
    running = listed.state is State.RUNNING and store.is_advanced(session)
    opening = title_of(standing.args) or standing.program
    return listed._replace(
        title=opening,
        opening=opening,
        program=standing.program,
        state=listed.state if running else state,
        waiting=waiting_of(standing),
        at_ms=moment.checkpoint.at_ms,
    )
