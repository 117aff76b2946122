"""What one who is attached to a session is told, in order: how it is now, the transcript without a gap, what comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from hhd.node.going import Going
from hhd.node.listed import Listed
from hhd.node.live import Seat
from hhd.node.standing_now import standing_now
from hhd.node.store_access import StoreAccess
from hhd_protocol import live
from hhd_protocol.ids import SessionId

AHEAD_BYTES = 512 * 1024
"""Of the transcript, read from the store for one who is attached: in memory for as long as nothing is taken."""


async def events_for(
    store: StoreAccess, going: Going, found: Listed, seat: Seat, position: int | None
) -> AsyncGenerator[live.Event, None]:
    """Yield what `seat` is told: first how `going`, found in the store as `found`, is; then what comes, until it ends.

    `position`: the byte of the transcript to begin at; None for where it ends now.
    """
    if going.rests:
        state, ask = await store.look(lambda control: standing_now(control, found.id))
        if going.rests:
            going.found(state, ask)
    end = await store.look(lambda control: control.transcript_bytes(found.id.hex()))
    yield live.Attached(
        session=found.id.hex(),
        title=found.title,
        program=found.program,
        folder=found.folder,
        position=end,
        by=seat.by,
    )
    at = end if position is None else position
    async for event in _transcript(store, found.id, at):
        yield event
        at = event.position + len(event.piece)
    seat.begin(going.now())
    while not seat.over:
        told = await seat.next()
        if told is None or (isinstance(told, live.Emitted) and told.position > at):
            async for event in _transcript(store, found.id, at):
                yield event
                at = event.position + len(event.piece)
        if told is None:
            continue
        if isinstance(told, live.Emitted):
            begin = at - told.position
            if begin < 0 or begin >= len(told.piece):
                continue
            told = live.Emitted(position=at, piece=told.piece[begin:])
            at += len(told.piece)
        yield told


async def _transcript(store: StoreAccess, session: SessionId, at: int) -> AsyncGenerator[live.Emitted, None]:
    """The durable transcript from byte `at` to where it ends."""
    from hhd.node.verbs import some_of

    while True:
        start = at
        parts = await store.look(lambda control: some_of(control.transcript(session.hex(), start=start), AHEAD_BYTES))  # noqa: B023
        for part in parts:
            yield live.Emitted(position=at, piece=part)
            at += len(part)
        if at == start:
            return
