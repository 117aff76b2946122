"""Sessions that ran here until a handoff had them rest: on disk, so that they go on should it come to nothing.

    should run -> held back, as it is paused -> released: neither | given up: should run

A daemon that starts does not begin what is held back: its handoff decides. A person who pauses it decides, too.
"""

from __future__ import annotations

from collections.abc import Callable

from hhd.node import should_run
from hhd.node.should_run import Note
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.ids import SessionId, TransferId

_TABLE, _VERSION = "held back", 1


def every(store: Store) -> dict[TransferId, Note]:
    """Return what is held back, by its handoff; raises DamagedStoreError."""
    raw = store.rows.get(_TABLE, b"", b"")
    match decoded(raw, "list of what is held back") if raw is not None else [_VERSION]:
        case [1, *rows]:
            return dict(_row(row) for row in rows)
    raise DamagedStoreError("The list of what is held back is not in the form it was written in.")


def not_held(store: Store) -> list[Note]:
    """Return what a daemon that starts begins: what should run, and no handoff holds back."""
    held = {note.session for note in every(store).values()}
    return [one for one in should_run.noted(store) if one.session not in held]


def hold(store: Store, transfer: TransferId, session: SessionId, ran: Note | None) -> bool:
    """Hold back a session for a handoff: `ran` if it runs, else what is noted of it; False where it does not run."""
    with store.transaction():
        noted = [one for one in should_run.noted(store) if one.session == session]
        if ran is None and not noted:
            return False
        _put(store, {**every(store), transfer: ran or noted[0]})
        should_run.forget(store, session)
        return True


def pass_on(store: Store, transfer: TransferId, to: TransferId) -> None:
    """Let another handoff, for which it rests too, hold back what `transfer` did."""
    with store.transaction():
        held = every(store)
        if (note := held.pop(transfer, None)) is not None:
            _put(store, {to: note, **held})


def let_run(store: Store, transfer: TransferId) -> Note | None:
    """What a handoff held back should run again; None where it holds nothing back, or not any more."""
    with store.transaction():
        note = every(store).get(transfer)
        if note is not None:
            drop(store, transfer)
            should_run.note(store, note)
        return note


def drop(store: Store, transfer: TransferId) -> None:
    """A handoff holds nothing back any more: the session was released."""
    _keep(store, lambda one, _: one != transfer)


def drop_session(store: Store, session: SessionId) -> None:
    """A person paused a session: whatever comes of its handoff, it does not go on by itself."""
    _keep(store, lambda _, note: note.session != session)


def _keep(store: Store, stays: Callable[[TransferId, Note], bool]) -> None:
    with store.transaction():
        held = every(store)
        left = {transfer: note for transfer, note in held.items() if stays(transfer, note)}
        if len(left) != len(held):
            _put(store, left)


def _put(store: Store, held: dict[TransferId, Note]) -> None:
    rows: list[Value] = [[bytes(transfer), should_run.row(note)] for transfer, note in held.items()]
    store.rows.put(_TABLE, b"", b"", encode([_VERSION, *rows]))


def _row(row: Value) -> tuple[TransferId, Note]:
    match row:
        case [bytes(transfer), note]:
            return TransferId(transfer), should_run.of_row(note)
    raise DamagedStoreError("The list of what is held back is not in the form it was written in.")
