"""What a handoff left otherwise than it was, kept at both sides for the person who looks later.

Its files in another folder, a command that could not begin: the handoff is done all the same, and who typed it may have
left. They are texts for showing, and nothing is decided by them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.handoff import bounded
from hhd_protocol.ids import DeviceId, SessionId, TransferId
from hhd_protocol.limits import HANDOFF_NAMES_MAX

_NOTES, _LAST = "handoff-notes", "handoff-notes-last"
"""Tables of rows: by handoff its notes with the other device; by session the last handoff of it."""


def keep(store: Store, transfer: TransferId, session: SessionId, peer: DeviceId, notes: Sequence[str]) -> None:
    """Keep the notes of the last handoff of a session; with none, what an earlier one left is over."""
    said: list[Value] = [bounded(note) for note in notes[:HANDOFF_NAMES_MAX]]
    with store.transaction():
        if said:
            store.rows.put(_NOTES, b"", transfer, encode([1, peer, said]))
        store.rows.put(_LAST, b"", session, transfer)


def of(store: Store, transfer: TransferId) -> tuple[str, ...]:
    """Return the notes of a handoff; none where they are damaged."""
    return _read(store, transfer)[1]


def last(store: Store, session: SessionId) -> tuple[DeviceId | None, tuple[str, ...]]:
    """Return the other device and the notes of the last handoff of a session; None and none where it left nothing."""
    try:
        raw = store.rows.get(_LAST, b"", session)
    except DamagedStoreError:
        raw = None
    return (None, ()) if raw is None else _read(store, TransferId(raw))


def _read(store: Store, transfer: TransferId) -> tuple[DeviceId | None, tuple[str, ...]]:
    try:
        raw = store.rows.get(_NOTES, b"", transfer)
        match None if raw is None else decoded(raw, "row of notes of a handoff"):
            case [1, bytes(peer), list(notes)]:
                return DeviceId(peer), tuple(str(note) for note in notes)
    except DamagedStoreError:
        pass
    return None, ()
