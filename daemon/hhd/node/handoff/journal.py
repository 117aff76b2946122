"""The journals of handoffs in the store: by handoff, the records of the stages that this device came to.

They are kept twice, like ownership records: after a crash only they say whether something was released or taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from hhd.identity.key import Identity
from hhd.node.handoff import held_back
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol import handoff
from hhd_protocol.codec import Value, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.handoff import OVER, Event, Happening, Persist, Record, Side, Stage
from hhd_protocol.ids import SessionId, TransferId
from hhd_protocol.limits import HANDOFF_GIVEN_UP_KEPT

_TABLE, _ALL, _OPEN, _GIVEN_UP = "handoff", "handoffs", "handoffs open", "handoffs given up"
_FILLED = bytes(16)
"""Entries of a listing have 32 bytes, the id of a handoff has 16."""
"""Tables of rows: the journal of a handoff; all handoffs, oldest first; those that are not over; by device the ids
of those that it offered and that came to nothing."""


def records(store: Store, transfer: TransferId) -> list[Record]:
    """Return the journal of a handoff, empty if there is none; raises DamagedStoreError."""
    raw = store.rows.get_either(_TABLE, b"", transfer)
    if raw is None:
        return []
    kept = decoded(raw, "journal of a handoff")
    try:
        if type(kept) is not list:
            raise FormatError("it is no list")
        found = [handoff.decode_record(one if isinstance(one, bytes) else b"") for one in kept]
        handoff.recover(found)
    except FormatError as error:
        raise DamagedStoreError(
            f"The journal of handoff {transfer.hex()[:12]} is not one that hhd writes ({error}); run `hhd check`."
        ) from error
    return found


def last(store: Store, transfer: TransferId) -> Record | None:
    """Return how a handoff stands, None if there is no record of it; raises DamagedStoreError."""
    return handoff.recover(records(store, transfer))


def keep(store: Store, record: Record) -> None:
    """Add a record, in the caller's transaction if there is one; one of the same stage takes the last one's place."""
    with store.transaction():
        kept = records(store, record.transfer)
        fresh = not kept
        if kept and kept[-1].stage is record.stage:
            kept.pop()
        kept.append(record)
        handoff.recover(kept)
        value: list[Value] = [handoff.encode_record(one) for one in kept]
        store.rows.put_twice(_TABLE, b"", record.transfer, encode(value))
        if fresh:
            store.rows.enlist(_ALL, b"", record.transfer + _FILLED)
        _note_open(store, record)
        if (record.side, record.stage) == (Side.TARGET, Stage.ABORTED):
            _note_given_up(store, record)
        if record.side is Side.SOURCE and record.stage in (Stage.RELEASED, Stage.ACKNOWLEDGED, Stage.CLEANED):
            held_back.drop(store, record.transfer)


def _note_open(store: Store, record: Record) -> None:
    """Keep the list of those that are not over, which a start reads: all there ever were may be thousands."""
    listed, entry = store.rows.listing(_OPEN, b""), record.transfer + _FILLED
    if record.stage in OVER and entry in listed:
        store.rows.relist(_OPEN, b"", [one for one in listed if one != entry])
    elif record.stage not in OVER and entry not in listed:
        store.rows.enlist(_OPEN, b"", entry)


def _note_given_up(store: Store, record: Record) -> None:
    """Of what one device offered and came to nothing, forget the oldest: it could offer on and on.

    Without a record of it a release is taken as well, and an offer that is said again is looked into again.
    """
    raw = store.rows.get(_GIVEN_UP, b"", record.peer)
    noted = [] if raw is None else decoded(raw, "list of handoffs that came to nothing")
    kept = [one for one in noted if isinstance(one, bytes)] if isinstance(noted, list) else []
    if record.transfer in kept:
        return
    kept.append(record.transfer)
    if len(kept) >= 2 * HANDOFF_GIVEN_UP_KEPT:  # Many at a time: the list of all is written anew for it.
        oldest, kept = kept[:-HANDOFF_GIVEN_UP_KEPT], kept[-HANDOFF_GIVEN_UP_KEPT:]
        gone = {one for one in oldest if _is_given_up(store, TransferId(one))}
        for one in gone:
            store.rows.delete_both(_TABLE, b"", one)
        listed = store.rows.listing(_ALL, b"")
        store.rows.relist(_ALL, b"", [one for one in listed if one[: len(_FILLED)] not in gone])
    entries: list[Value] = [*kept]
    store.rows.put(_GIVEN_UP, b"", record.peer, encode(entries))


def _is_given_up(store: Store, transfer: TransferId) -> bool:
    try:
        found = last(store, transfer)
    except DamagedStoreError:  # It is shown as that.
        return False
    return found is not None and (found.side, found.stage) == (Side.TARGET, Stage.ABORTED)


def every(store: Store) -> Iterator[Record]:
    """Yield how each handoff stands that this device knows of, newest first; damaged ones are left out."""
    for transfer in reversed(store.rows.listing(_ALL, b"")):
        try:
            found = last(store, TransferId(transfer[: len(_FILLED)]))
        except DamagedStoreError:
            continue
        if found is not None:
            yield found


def unfinished(store: Store) -> list[Record]:
    """Return those that are not over, oldest first."""
    found = [last(store, TransferId(one[: len(_FILLED)])) for one in store.rows.listing(_OPEN, b"")]
    return [one for one in found if one is not None and one.stage not in OVER]


def close_beaten(store: Store, me: Identity, session: SessionId) -> list[Record]:
    """Close the open handoffs of `session`, which a record here beats; within a transaction. Return how they stand."""
    closed = []
    for record in unfinished(store):
        if record.session != session:
            continue
        after, outputs = handoff.handle(
            handoff.recovered(record, me=me.id),
            Event(what=Happening.BEATEN, why="another record of the session beats it", at_ms=store.now_ms()),
        )
        for output in outputs:
            if isinstance(output, Persist):
                keep(store, output.record)
                closed.append(after.record)
    return closed
